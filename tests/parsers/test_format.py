"""Formats as tables: targets, and what a table says about its format."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
from backedge.base.errors import SetupError
from backedge.parsers.format import Format, Jump, ReuseSuffix, State, Target, target_state


@pytest.mark.parametrize(
    ("target", "state"),
    [
        (State.NAME, State.NAME),
        (ReuseSuffix(State.ARGUMENTS), State.ARGUMENTS),
        (Jump.RETURN, Jump.RETURN),
    ],
)
def test_the_state_of_a_target(target: Target, state: State | Jump) -> None:
    assert target_state(target) is state


@pytest.mark.parametrize("member", [*State, *Jump])
def test_copies_of_members_are_found_in_sets(member: State | Jump) -> None:
    members: set[State | Jump] = {*State, *Jump}
    assert pickle.loads(pickle.dumps(member)) in members  # noqa: S301 - our own bytes
    assert copy.deepcopy(member) in members


CALLS: dict[State, dict[str, Target]] = {State.CONTENT: {"<call>": State.JSON_CALLS}}
THOUGHTS: dict[State, dict[str, Target]] = {
    State.START: {"<think>": State.REASONING},
    State.REASONING: {"</think>": State.START},
}
HEADED: dict[State, dict[str, Target]] = {
    State.START: {"<head>": State.HEADER},
    State.HEADER: {"|": Jump.BY_HEADER},
}


@pytest.mark.parametrize(
    ("format_", "tools", "reasoning"),
    [
        (Format("calls", CALLS, source=""), True, False),
        (Format("thoughts", THOUGHTS, source=""), False, True),
        (Format("both", CALLS | THOUGHTS, source=""), True, True),
        (Format("text", {}, source=""), False, False),
        (
            Format("by header", HEADED, source="", headers=((re.compile("f"), State.ARGUMENTS),)),
            True,
            False,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Format) else None,
)
def test_what_a_format_parses(format_: Format, tools: bool, reasoning: bool) -> None:
    assert (format_.parses_tools, format_.parses_reasoning) == (tools, reasoning)


@pytest.mark.parametrize("state", [State.CONTENT, State.REASONING, State.CODE_BLOCK])
def test_a_marker_of_text_may_not_reuse_all_its_text(state: State) -> None:
    """A rejected call would be read again for ever."""
    states: dict[State, dict[str, Target]] = {state: {"@{": ReuseSuffix(State.JSON_CALLS)}}
    Format("test", states, source="this test")
    states[state]["{"] = ReuseSuffix(State.JSON_CALLS)
    with pytest.raises(SetupError, match=f"marker '{{' of {state.name} reuses all its text"):
        Format("test", states, source="this test")
