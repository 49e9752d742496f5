"""Apriel 1.5 and 1.6: reasoning up to a line in brackets, and Jamba's calls."""

from dataclasses import replace

from ..format import State
from .fragments import call_array, merge_states
from .jamba import JAMBA

_START = "Here are my reasoning steps:"
_ANSWER, _END = "[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"

APRIEL = replace(
    JAMBA,
    name="apriel",
    states=merge_states(
        JAMBA.states,
        {
            State.START: dict.fromkeys((f"{_START}\n", _START), State.REASONING),
            State.REASONING: dict.fromkeys(
                (f"\n{_ANSWER}\n", f"\n{_ANSWER}", f"{_ANSWER}\n", _ANSWER), State.START
            ),
            State.CONTENT: dict.fromkeys((f"\n{_END}", _END), State.CONTENT),
        },
    ),
    thinks_by_default=True,
    hints=(_ANSWER, "ServiceNow"),
    breaks_before_calls=1,
    source="ServiceNow-AI/Apriel-1.5-15b-Thinker and 1.6 chat templates",
    spelling=call_array("<tool_calls>", "</tool_calls>"),
)
