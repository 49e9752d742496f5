"""Formats as tables: targets, and what a table says about its format."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.parsers.format import (
    Format,
    FormatError,
    Jump,
    ReuseSuffix,
    State,
    Target,
    target_state,
)


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


ENDS: dict[State, dict[str, Target]] = {State.JSON_CALLS: {"</call>": Jump.RETURN}}
CALLS: dict[State, dict[str, Target]] = {State.CONTENT: {"<call>": State.JSON_CALLS}, **ENDS}
THOUGHTS: dict[State, dict[str, Target]] = {
    State.START: {"<think>": State.REASONING},
    State.REASONING: {"</think>": State.START},
}
HEADED: dict[State, dict[str, Target]] = {
    State.START: {"<head>": State.HEADER},
    State.HEADER: {"|": Jump.BY_HEADER},
    State.ARGUMENTS: {"|": Jump.RETURN},
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
    states: dict[State, dict[str, Target]] = {state: {"@{": ReuseSuffix(State.JSON_CALLS)}, **ENDS}
    Format("test", states, source="this test")
    states[state]["{"] = ReuseSuffix(State.JSON_CALLS)
    with pytest.raises(SetupError, match=rf"`states\[{state.name}\]\['{{'\]` must not reuse"):
        Format("test", states, source="this test")


HEADER = re.compile("f")
# field, fields of the table, part of the message
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("name", {"name": ""}, "must be a string that is not empty"),
    ("initial_state", {"initial_state": "content"}, "must be a State, not 'content'"),
    ("states", {"states": {"content": {}}}, "must be a State, not 'content'"),
    ("states[CONTENT]", {"states": {State.CONTENT: {5: State.NAME}}}, "a string, not 5"),
    ("states[CONTENT]", {"states": {State.CONTENT: {"": State.JSON_CALLS}}}, "empty marker"),
    ("states[CONTENT]['<']", {"states": {State.CONTENT: {"<": "name"}}}, "not 'name'"),
    (
        "states[CONTENT]['<a']",
        {"states": {State.CONTENT: {"<a": ReuseSuffix("name")}}},  # type: ignore[arg-type]  # tested
        "must lead to a State",
    ),
    ("states[NAME]", {"states": {State.CONTENT: {"<": State.NAME}}}, "a marker that ends it"),
    ("states[REASONING]", {"initial_state": State.REASONING}, "a marker that ends it"),
    ("headers[0]", {"headers": (("f", State.CONTENT),)}, "a compiled pattern and a State"),
    ("headers[1]", {"headers": ((HEADER, State.CONTENT), (HEADER, "x"))}, "and a State"),
    ("states[KEY]", {"headers": ((HEADER, State.KEY),)}, "a marker that ends it"),
]


@pytest.mark.parametrize(("field", "fields", "problem"), WRONG)
def test_a_wrong_table_is_refused(field: str, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(FormatError) as refused:
        Format(**{"name": "wrong", "states": CALLS, "source": "", **fields})
    assert refused.value.field == field
    assert f"`{field}` " in str(refused.value)
    assert problem in str(refused.value)
