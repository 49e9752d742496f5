"""Reasoning in tags, for models whose calls, if they have any, are another format's."""

from ..format import Format, State

_THINK = {
    State.START: {"<think>": State.REASONING},
    State.REASONING: {"</think>": State.START},
}

DEEPSEEK_R1 = Format(
    "deepseek_r1",
    _THINK,
    aliases=("deepseek-r1",),
    thinks_by_default=True,
    source="deepseek-ai/DeepSeek-R1 chat template; vllm 0.31 reasoning/deepseek_r1_reasoning_parser.py; "
    "sglang parser/reasoning_parser.py DeepSeekR1Detector",
)

HOLO2 = Format(
    "holo2",
    _THINK,
    thinks_by_default=True,
    thinking_flags={"thinking": True, "enable_thinking": True},
    source="vllm 0.31 reasoning/deepseek_v3_reasoning_parser.py DeepSeekV3ReasoningWithThinkingParser",
)

KIMI = Format(
    "kimi",
    {
        State.START: {"◁think▷": State.REASONING},
        State.REASONING: {"◁/think▷": State.START},
    },
    source="moonshotai/Kimi-VL-A3B-Thinking; sglang parser/reasoning_parser.py KimiDetector",
)
