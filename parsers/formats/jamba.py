"""Jamba's tool calls: an array of objects between tags."""

from ..format import Format, Jump, State

JAMBA = Format(
    "jamba",
    {
        State.CONTENT: {"<tool_calls>": State.JSON_CALLS},
        State.JSON_CALLS: {"</tool_calls>": Jump.RETURN},
    },
    source="vllm 0.31 tool_parsers/jamba_tool_parser.py",
)
