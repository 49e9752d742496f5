"""LongCat Flash: reasoning, and call objects like Hermes's; since 2601, parameters between tags."""

from ..format import Format, Jump, ReuseSuffix, Spelling, State
from .fragments import JSON_CALL, keyed_values, think

END = "</longcat_tool_call>"
KEY = "<longcat_arg_key>"

LONGCAT = Format(
    "longcat",
    {
        **think("<longcat_think>", "</longcat_think>"),
        State.CONTENT: {"<longcat_tool_call>": State.NAME},
        State.NAME: {
            "{": ReuseSuffix(State.JSON_CALLS),
            "[": ReuseSuffix(State.JSON_CALLS),
            KEY: State.KEY,
            END: Jump.RETURN,
        },
        State.JSON_CALLS: {END: Jump.RETURN},
        **keyed_values(
            KEY,
            "<longcat_arg_value>",
            "</longcat_arg_value>",
            key_end="</longcat_arg_key>",
            then={END: Jump.RETURN},
        ),
    },
    strip="",
    breaks_before_calls=1,
    source="sglang function_call/longcat_detector.py; "
    "vllm 0.31 tool_parsers/longcat_tool_parser.py, "
    "after 0.33 reasoning/longcat_reasoning_parser.py",
    spelling=Spelling(f"<longcat_tool_call>\n{JSON_CALL}\n{END}"),
)
