"""LongCat Flash's tool calls: Hermes's objects in tags of its own, and parameters in tags since its release 2601."""

from ..format import Format, Jump, ReuseSuffix, State

END = "</longcat_tool_call>"
KEY = "<longcat_arg_key>"

LONGCAT = Format(
    "longcat",
    {
        State.CONTENT: {"<longcat_tool_call>": State.NAME},
        State.NAME: {"{": ReuseSuffix(State.JSON_CALLS), KEY: State.KEY, END: Jump.RETURN},
        State.JSON_CALLS: {END: Jump.RETURN},
        State.KEY: {"</longcat_arg_key>": State.PARAMETERS},
        State.PARAMETERS: {"<longcat_arg_value>": State.VALUE, KEY: State.KEY, END: Jump.RETURN},
        State.VALUE: {"</longcat_arg_value>": State.PARAMETERS},
    },
    strip="",
    source="sglang function_call/longcat_detector.py; vllm 0.31 tool_parsers/longcat_tool_parser.py",
)
