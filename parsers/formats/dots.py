"""Dots: invocations like MiniMax M2's, or a JSON call, between its own tags."""

from ..format import Format, Jump, ReuseSuffix, State
from .fragments import invocation, invoke, spell_invocations
from .minimax import QUOTES

END = "</dots_function_call>"

DOTS = Format(
    "dots",
    {
        State.CONTENT: {"<dots_function_call>": State.TOOL_SECTION},
        State.TOOL_SECTION: {
            **invoke(quotes=QUOTES),
            "{": ReuseSuffix(State.JSON_CALLS),
            END: Jump.RETURN,
        },
        State.JSON_CALLS: {END: Jump.RETURN},
        **invocation(quotes=QUOTES, then={END: Jump.RETURN}),
    },
    strip="",
    breaks_before_calls=1,
    source="vllm 0.31 tool_parsers/dots_tool_parser.py; sglang function_call/dots_detector.py",
    spelling=spell_invocations("<dots_function_call>\n", END),
)
