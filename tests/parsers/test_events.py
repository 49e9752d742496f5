"""Joining the events of one choice."""

from __future__ import annotations

from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallStarted,
    join,
)
from hypothesis import given
from hypothesis import strategies as st

texts = st.text(min_size=1, max_size=3)
events = st.one_of(
    st.builds(Reasoning, texts),
    st.builds(Content, texts),
    st.builds(ToolCallArguments, st.integers(0, 1), texts),
    st.builds(ToolCallStarted, st.integers(0, 1), texts),
    st.builds(ToolCallCut, st.integers(0, 1), texts),
)


def test_neighbours_of_one_kind_are_joined() -> None:
    assert join(
        [
            *(Reasoning("a"), Reasoning("b"), Content("c"), Content("d")),
            *(ToolCallStarted(0, "f"), ToolCallArguments(0, "{"), ToolCallArguments(0, "}")),
            *(ToolCallArguments(1, "{}"), Content("e")),
        ]
    ) == [
        *(Reasoning("ab"), Content("cd"), ToolCallStarted(0, "f")),
        *(ToolCallArguments(0, "{}"), ToolCallArguments(1, "{}"), Content("e")),
    ]


@given(st.lists(events, max_size=8))
def test_joining_keeps_the_text_and_joins_all_there_is(given_events: list[Event]) -> None:
    joined = join(given_events)
    assert join(joined) == joined
    single = [join([event])[0] for event in given_events]
    assert single == given_events
    for kind in (Reasoning, Content, ToolCallArguments):
        assert "".join(event.text for event in joined if isinstance(event, kind)) == "".join(
            event.text for event in given_events if isinstance(event, kind)
        )
