"""LongCat Flash's tool calls: Hermes's form in tags of its own."""

from ..format import Format, State

LONGCAT = Format(
    "longcat",
    {
        State.CONTENT: {"<longcat_tool_call>": State.JSON_CALLS},
        State.JSON_CALLS: {"</longcat_tool_call>": State.BACK},
    },
    source="meituan-longcat/LongCat-Flash-Chat chat template; vllm 0.31 tool_parsers/longcat_tool_parser.py",
)
