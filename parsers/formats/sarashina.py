"""Sarashina: a list of call objects as Python writes them, with or without a token before it."""

from ..format import COMPLETE, Format, Jump, Literals, ReuseSuffix, Spelling, State

SARASHINA = Format(
    "sarashina",
    {
        State.START: {"[": ReuseSuffix(State.JSON_CALLS)},
        State.CONTENT: {"<|tool_calls|>": State.JSON_CALLS},
        State.JSON_CALLS: {COMPLETE: Jump.RETURN},
    },
    declared_only=True,
    hints=("<|tool_calls|>",),
    source="a description of the syntax; neither a template nor a peer's parser was at hand",
    spelling=Spelling(
        "{'name': '{name}', 'arguments': {{arguments}}}",
        around=("<|tool_calls|>[", "]"),
        between=", ",
        parameters={State.VALUE: "'{key}': {value}"},
        literals=Literals(", "),
    ),
)
