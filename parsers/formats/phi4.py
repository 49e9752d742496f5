"""Phi 4 mini: an array of call objects after the word `functools`."""

from ..format import COMPLETE, Format, Jump, ReuseSuffix, State
from .fragments import call_array

PHI4_MINI_JSON = Format(
    "phi4_mini_json",
    {
        State.CONTENT: {"functools": State.TOOL_SECTION},
        State.TOOL_SECTION: {"[": ReuseSuffix(State.JSON_CALLS)},
        State.JSON_CALLS: {COMPLETE: Jump.RETURN},
    },
    aliases=("phi4",),
    source="vllm examples/tool_chat_template_phi4_mini.jinja, "
    "0.31 tool_parsers/phi4mini_tool_parser.py",
    spelling=call_array("functools", ""),
)
