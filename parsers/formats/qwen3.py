"""Qwen 3's reasoning, and Qwen 3 Coder's tool calls."""

from ..format import Format, State

QWEN3 = Format(
    "qwen3",
    {
        State.START: {"<think>": State.REASONING},
        State.REASONING: {"</think>": State.START},
    },
    thinks=True,
    thinking_flags={"enable_thinking": True},
    source="Qwen/Qwen3-8B chat template; vllm 0.31 parser/qwen3.py",
)

QWEN3_CODER = Format(
    "qwen3_coder",
    {
        State.CONTENT: {"<tool_call>": State.SECTION},
        State.SECTION: {"<function=": State.NAME, "</tool_call>": State.BACK},
        State.NAME: {">": State.PARAMETERS},
        State.PARAMETERS: {"<parameter=": State.KEY, "</function>": State.SECTION, "</tool_call>": State.BACK},
        State.KEY: {">": State.VALUE},
        State.VALUE: {"</parameter>": State.PARAMETERS},
    },
    aliases=("qwen3_xml", "mimo", "step3p5", "nemotron_v3"),
    source="Qwen/Qwen3-Coder-30B-A3B-Instruct chat template; vllm 0.31 parser/qwen3.py",
)
