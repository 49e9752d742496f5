"""Qwen 3's reasoning; Qwen 3 Coder's tool calls, which MiMo, Step 3.5 and Nemotron 3 have taken over."""

from ..format import Format, Jump, State

QWEN3 = Format(
    "qwen3",
    {
        # A second end marker right behind the first is none of the answer.
        State.START: {"<think>": State.REASONING, "</think>": State.START},
        State.REASONING: {"</think>": State.START},
    },
    aliases=(
        "qwen3-thinking",
        "granite_thinking_parser",
        "mimo",
        "minimax",
        "nemotron_3",
        "nemotron_v3",
        "step3p5",
        "telechat4",
    ),
    thinks_by_default=True,
    thinking_flags={"enable_thinking": True},
    source="Qwen/Qwen3-8B chat template; vllm 0.31 parser/qwen3.py; sglang parser/reasoning_parser.py",
)

QWEN3_CODER = Format(
    "qwen3_coder",
    {
        # Without <tool_call>, too: Qwen 3 Coder forgets it at times.
        State.CONTENT: {"<tool_call>": State.TOOL_SECTION, "<function=": State.NAME},
        State.TOOL_SECTION: {
            "<function=": State.NAME,
            "<tool_call>": State.TOOL_SECTION,
            "</tool_call>": Jump.RETURN,
        },
        State.NAME: {">": State.PARAMETERS, "</function>": State.TOOL_SECTION},
        State.PARAMETERS: {
            "<parameter=": State.KEY,
            "</function>": State.TOOL_SECTION,
            "</tool_call>": Jump.RETURN,
        },
        State.KEY: {">": State.VALUE},
        # At the beginning of a line the next parameter ends one whose end marker is missing.
        State.VALUE: {"</parameter>": State.PARAMETERS, "\n<parameter=": State.KEY},
    },
    aliases=("qwen3_xml", "mimo", "step3p5", "nemotron_v3"),
    source="Qwen/Qwen3-Coder-30B-A3B-Instruct chat template; vllm 0.31 parser/qwen3.py; "
    "sglang function_call/qwen3_coder_detector.py, function_call/mimo_detector.py",
)
