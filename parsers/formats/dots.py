"""Dots: invocations like MiniMax M2's, or a JSON call, between tags of its own."""

from ..format import Format, Jump, ReuseSuffix, State
from .minimax import INVOKE, invocations

END = "</dots_function_call>"

DOTS = Format(
    "dots",
    {
        State.CONTENT: {"<dots_function_call>": State.TOOL_SECTION},
        State.TOOL_SECTION: {**INVOKE, "{": ReuseSuffix(State.JSON_CALLS), END: Jump.RETURN},
        State.JSON_CALLS: {END: Jump.RETURN},
        **invocations(END),
    },
    strip="",
    source="vllm 0.31 tool_parsers/dots_tool_parser.py; sglang function_call/dots_detector.py",
)
