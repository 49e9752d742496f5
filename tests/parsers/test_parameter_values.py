"""How the value of one parameter begins, by the state and the format."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.events import Event, ToolCallArguments
from backedge.parsers.format import Format, State
from backedge.parsers.parameter_values import begin_value

FORMAT = Format("ours", {}, source="a test", wrappers=("input",))
PROPERTIES = {"n": {"type": "integer"}, "s": {"type": "string"}}


def read(state: State, key: str, text: str, format_: Format = FORMAT, **declared: Any) -> Any:
    events: list[Event] = []
    calls = ToolCallEmitter(events, {"f": {"properties": {**PROPERTIES, **declared}}})
    calls.start("f")
    value = begin_value(calls, format_, state, key)
    value.feed(text)
    value.finish()
    calls.end()
    return json.loads(
        "".join(event.text for event in events if isinstance(event, ToolCallArguments))
    )


@pytest.mark.parametrize(
    ("state", "key", "text", "expected"),
    [
        (State.VALUE, "n", "3", {"n": 3}),
        (State.VALUE, "s", "3", {"s": "3"}),
        (State.VALUE, "x", "3", {"x": "3"}),
        (State.STRING, "n", "3", {"n": "3"}),
        (State.JSON, "s", "3", {"s": 3}),
        (State.JSON, "input", '{"n": 3}', {"n": 3}),
        (State.STRING, "input", '{"n": 3}', {"n": 3}),
        (State.STRING, "input", "many", {"input": "many"}),
    ],
)
def test_by_state(state: State, key: str, text: str, expected: Any) -> None:
    assert read(state, key, text) == expected


def test_an_undeclared_value_is_what_the_format_says() -> None:
    assert read(State.VALUE, "x", "3", replace(FORMAT, undeclared_type="json")) == {"x": 3}


def test_a_declared_parameter_holds_only_itself() -> None:
    declared = {"type": "object"}
    assert read(State.JSON, "input", '{"n": 3}', input=declared) == {"input": {"n": 3}}
