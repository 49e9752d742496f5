"""K2 Horizon: IFM tags, with calls in JSON as another form."""

from ..format import Format, Jump, ReuseSuffix, Spelling, State
from .fragments import keyed_values, merge_states, think

_DEPTHS = ("think", "think_fast", "think_faster")

K2_HORIZON = Format(
    "k2_horizon",
    merge_states(
        think(
            tuple(f"<ifm|{depth}>" for depth in _DEPTHS),
            tuple(f"</ifm|{depth}>" for depth in _DEPTHS),
        ),
        {
            State.CONTENT: {"<ifm|tool_calls>": State.TOOL_SECTION},
            State.TOOL_SECTION: {
                "<ifm|tool_call>": State.NAME,
                "</ifm|tool_call>": State.TOOL_SECTION,
                "</ifm|tool_calls>": Jump.RETURN,
            },
            State.NAME: {
                "<ifm|arg_key>": State.KEY,
                "</ifm|tool_call>": State.TOOL_SECTION,
                "{": ReuseSuffix(State.JSON_CALLS),
            },
            State.JSON_CALLS: {"</ifm|tool_call>": State.TOOL_SECTION},
            # The model also writes the type, but the declared schema is more reliable.
            State.PARAMETERS: {"<ifm|arg_type>": State.IGNORED},
            State.IGNORED: {"</ifm|arg_type>": State.PARAMETERS},
        },
        keyed_values(
            "<ifm|arg_key>",
            "<ifm|arg_value>",
            "</ifm|arg_value>",
            key_end="</ifm|arg_key>",
            then={
                "</ifm|tool_call>": State.TOOL_SECTION,
                "</ifm|tool_calls>": Jump.RETURN,
                "<ifm|tool_call>": State.NAME,
            },
        ),
    ),
    strip="",
    breaks_before_calls=1,
    source="vllm 0.31 tool_parsers/k2_horizon_tool_parser.py, "
    "reasoning/k2_horizon_reasoning_parser.py; sglang function_call/k2_v3_detector.py",
    spelling=Spelling(
        "<ifm|tool_call>{name}\n{arguments}</ifm|tool_call>\n",
        around=("<ifm|tool_calls>\n", "</ifm|tool_calls>"),
        parameters={
            State.VALUE: "<ifm|arg_key>{key}</ifm|arg_key><ifm|arg_value>{value}</ifm|arg_value>\n"
        },
    ),
)
