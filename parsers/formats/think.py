"""Reasoning between tags, for models whose calls, if any, are in another format."""

from ..format import Format
from .fragments import think

BASIC = Format(
    "basic",
    think(extra_end=True),
    aliases=("deepseek_v3_1", "deepseek_v3_2", "minicpmv", "nemotron_deci"),
    source="Dynamo's reasoning parsers of these names; vllm 0.33 parser/minicpmv.py",
)

DEEPSEEK_R1 = Format(
    "deepseek_r1",
    think(),
    aliases=("deepseek-r1", "step5"),
    thinks_by_default=True,
    source="deepseek-ai/DeepSeek-R1 chat template; "
    "vllm 0.31 reasoning/deepseek_r1_reasoning_parser.py; "
    "sglang parser/reasoning_parser.py DeepSeekR1Detector",
)

HOLO2 = Format(
    "holo2",
    think(),
    thinks_by_default=True,
    thinking_flags={"thinking": True, "enable_thinking": True},
    source="vllm 0.31 reasoning/deepseek_v3_reasoning_parser.py "
    "DeepSeekV3ReasoningWithThinkingParser",
)

KIMI = Format(
    "kimi",
    think("◁think▷", "◁/think▷"),
    source="moonshotai/Kimi-VL-A3B-Thinking; sglang parser/reasoning_parser.py KimiDetector",
)
