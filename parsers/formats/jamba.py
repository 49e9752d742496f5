"""Jamba: an array of call objects between tags."""

from .fragments import variant
from .hermes import HERMES

JAMBA = variant(
    HERMES,
    "jamba",
    markers={"tool_call": "tool_calls"},
    source="vllm 0.31 tool_parsers/jamba_tool_parser.py",
)
