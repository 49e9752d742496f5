"""LongCat Flash's tool calls: Hermes's objects in tags of its own, and parameters in tags since its release 2601."""

from ..format import Format, Keep, State

END = "</longcat_tool_call>"
KEY = "<longcat_arg_key>"

LONGCAT = Format(
    "longcat",
    {
        State.CONTENT: {"<longcat_tool_call>": State.NAME},
        State.NAME: {"{": Keep(State.JSON_CALLS), KEY: State.KEY, END: State.BACK},
        State.JSON_CALLS: {END: State.BACK},
        State.KEY: {"</longcat_arg_key>": State.PARAMETERS},
        State.PARAMETERS: {"<longcat_arg_value>": State.VALUE, KEY: State.KEY, END: State.BACK},
        State.VALUE: {"</longcat_arg_value>": State.PARAMETERS},
    },
    frame="",
    source="sglang function_call/longcat_detector.py; vllm 0.31 tool_parsers/longcat_tool_parser.py",
)
