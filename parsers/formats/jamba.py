"""Jamba: an array of call objects between tags."""

from ..format import Spelling
from .fragments import JSON_CALL, variant
from .hermes import HERMES

JAMBA = variant(
    HERMES,
    "jamba",
    markers={"tool_call": "tool_calls"},
    source="vllm 0.31 tool_parsers/jamba_tool_parser.py",
    spelling=Spelling(JSON_CALL, around=("<tool_calls>[\n  ", "\n]</tool_calls>"), between=",\n  "),
)
