"""Dots: invocations like MiniMax M2's, or a JSON call, between tags of its own."""

from ..format import Format, Keep, State

DOTS = Format(
    "dots",
    {
        State.CONTENT: {"<dots_function_call>": State.SECTION},
        State.SECTION: {
            '<invoke name="': State.NAME,
            "<invoke name='": State.NAME,
            "<invoke name=": State.NAME,
            "{": Keep(State.JSON_CALLS),
            "</dots_function_call>": State.BACK,
        },
        State.JSON_CALLS: {"</dots_function_call>": State.BACK},
        State.NAME: {'">': State.PARAMETERS, "'>": State.PARAMETERS, ">": State.PARAMETERS},
        State.PARAMETERS: {
            '<parameter name="': State.KEY,
            "<parameter name='": State.KEY,
            "<parameter name=": State.KEY,
            "</invoke>": State.SECTION,
            "</dots_function_call>": State.BACK,
        },
        State.KEY: {'">': State.VALUE, "'>": State.VALUE, ">": State.VALUE},
        State.VALUE: {"</parameter>": State.PARAMETERS},
    },
    frame="",
    source="vllm 0.31 tool_parsers/dots_tool_parser.py; sglang function_call/dots_detector.py",
)
