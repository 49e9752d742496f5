"""A parameter that holds all arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.base.limits import MAX_HELD_VALUE
from backedge.parsers.arguments.schema_value import JSON, SchemaValue
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.arguments.wrapped_arguments import WrappedArguments
from backedge.parsers.events import Event, ToolCallArguments
from hypothesis import given
from hypothesis import strategies as st

SCHEMA = {
    "properties": {"a": {"type": "integer"}, "b": {"type": ["array", "string", "null", "integer"]}}
}


def read(text: str, size: int = 1 << 20) -> Any:
    events: list[Event] = []
    calls = ToolCallEmitter(events, {"f": SCHEMA})
    calls.start("f")

    def new_value() -> SchemaValue:
        calls.member("input")
        return SchemaValue(calls.arguments, calls.malformed, JSON, "", quoted=True)

    value = WrappedArguments(calls, new_value)
    for start in range(0, len(text), size):
        value.feed(text[start : start + size])
        assert len(value.held) <= MAX_HELD_VALUE
    value.finish()
    calls.end()
    return json.loads(
        "".join(event.text for event in events if isinstance(event, ToolCallArguments))
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1, "b": [null, "é"]}', {"a": 1, "b": [None, "é"]}),
        (' {"a": 1}\n', {"a": 1}),
        (json.dumps('{"a": 1}'), {"a": 1}),
        ("{}", {}),
        ('{"b": "\\ud800"}', {"b": "\ud800"}),
        ('{"c": 1}', {"input": {"c": 1}}),
        ('{"a": 1, "c": 2}', {"input": {"a": 1, "c": 2}}),
        ('{"a": NaN}', {"input": {"a": "NaN"}}),
        ("[1]", {"input": [1]}),
        ("many", {"input": "many"}),
        ("x" * 2 * MAX_HELD_VALUE, {"input": "x" * 2 * MAX_HELD_VALUE}),
    ],
)
@pytest.mark.parametrize("size", [1 << 20, 1000, 7])
def test_what_is_written(text: str, expected: Any, size: int) -> None:
    assert read(text, size) == expected


@given(st.dictionaries(st.just("b"), st.integers() | st.text() | st.none()))
def test_any_members(members: dict[str, Any]) -> None:
    assert read(json.dumps(members), 3) == members
