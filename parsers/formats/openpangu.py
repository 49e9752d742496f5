"""openPangu V2: an array of call objects between LFM 2's tokens, and reasoning."""

from dataclasses import replace

from .fragments import call_array, think
from .pythonic import LFM2

OPENPANGU_V2 = replace(
    LFM2,
    name="openpangu_v2",
    states={**think(), **LFM2.states},
    thinks_by_default=True,
    thinking_flags={"think": True},
    hints=("Pangu", "pangu", "盘古"),
    source="after vllm 0.33 tool_parsers/openpangu_v2_tool_parser.py, "
    "reasoning/openpangu_v2_reasoning_parser.py",
    spelling=call_array("<|tool_call_start|>", "<|tool_call_end|>"),
)
