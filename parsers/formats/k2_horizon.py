"""K2 Horizon: IFM tags, with calls in JSON as another of its forms."""

from ..format import Format, Jump, ReuseSuffix, State

_DEPTHS = ("think", "think_fast", "think_faster")

K2_HORIZON = Format(
    "k2_horizon",
    {
        State.START: {f"<ifm|{depth}>": State.REASONING for depth in _DEPTHS},
        State.REASONING: {f"</ifm|{depth}>": State.START for depth in _DEPTHS},
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
        State.KEY: {"</ifm|arg_key>": State.PARAMETERS},
        State.PARAMETERS: {
            "<ifm|arg_type>": State.IGNORED,
            "<ifm|arg_value>": State.VALUE,
            "<ifm|arg_key>": State.KEY,
            "</ifm|tool_call>": State.TOOL_SECTION,
            "</ifm|tool_calls>": Jump.RETURN,
        },
        # A declared type says more than the one that the model writes.
        State.IGNORED: {"</ifm|arg_type>": State.PARAMETERS},
        State.VALUE: {"</ifm|arg_value>": State.PARAMETERS},
    },
    strip="",
    source="vllm 0.31 tool_parsers/k2_horizon_tool_parser.py, reasoning/k2_horizon_reasoning_parser.py; "
    "sglang function_call/k2_v3_detector.py",
)
