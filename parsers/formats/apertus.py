"""Apertus's tool calls, whose objects have the function's name as their key, and its deliberation."""

from ..arguments.json_calls import CallKeys
from ..format import Format, Jump, State

APERTUS = Format(
    "apertus",
    {
        State.START: {"<|inner_prefix|>": State.REASONING},
        State.REASONING: {"<|inner_suffix|>": State.START},
        State.CONTENT: {"<|tools_prefix|>": State.JSON_CALLS},
        State.JSON_CALLS: {"<|tools_suffix|>": Jump.RETURN},
    },
    aliases=("apertus2509",),
    keys=CallKeys(name_is_key=True),
    source="vllm examples/tool_chat_template_apertus.jinja, 0.31 tool_parsers/apertus_tool_parser.py; "
    "sglang function_call/apertus2509_detector.py",
)
