"""Strings where the schema allows none become what their text spells; nothing else changes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection
from typing import Any

import jsonschema
import pytest
from backedge.base.limits import MAX_HELD_STRING
from backedge.parsers.arguments.incremental_grammar import Status
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.arguments.typed_json import TypedJson
from backedge.parsers.events import ToolCallArguments
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.arguments.reading import read_through

PROPERTIES: dict[str, Any] = {
    "i": {"type": "integer"},
    "n": {"type": "number"},
    "b": {"type": "boolean"},
    "s": {"type": "string"},
    "u": {"type": ["integer", "string"]},
    "l": {"type": "array", "items": {"type": "integer"}},
    "o": {"type": "object", "properties": {"i": {"type": "integer"}}},
}
SCHEMA = {"type": "object", "properties": PROPERTIES}
cuts = st.sets(st.integers(1, 120), max_size=20)


def read(text: str, cuts: Collection[int] = ()) -> str:
    calls = ToolCallEmitter({"f": SCHEMA})
    calls.start("f")
    grammar = TypedJson(calls, calls.arguments)
    positions = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    held = ""
    for start, end in itertools.pairwise(positions):
        held = read_through(grammar, held + text[start:end])
        if grammar.status is Status.DONE:
            break
    if grammar.status is not Status.DONE:
        grammar.close()
    return "".join(event.text for event in calls.events if isinstance(event, ToolCallArguments))


CHANGED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"i": "5", "n": "2.5", "b": "true"}, {"i": 5, "n": 2.5, "b": True}),
    ({"i": " 7 ", "l": ["1", 2, "x"]}, {"i": 7, "l": [1, 2, "x"]}),
    ({"o": {"i": "5", "s": "5"}}, {"o": {"i": 5, "s": "5"}}),
    ({"o": '{"i": 1}', "l": "[1, 2]"}, {"o": {"i": 1}, "l": [1, 2]}),
    ({"s": "5", "u": "5", "other": "5"}, {"s": "5", "u": "5", "other": "5"}),
    ({"s": 5, "b": 1, "i": True, "n": False}, {"s": 5, "b": 1, "i": True, "n": False}),
    ({"i": 1.0, "s": False, "l": {"a": 1}}, {"i": 1.0, "s": False, "l": {"a": 1}}),
    ({"o": '{"x": 1, "y', "l": "[1, "}, {"o": '{"x": 1, "y', "l": "[1, "}),
    ({"o": '{"x": ', "b": "'"}, {"o": '{"x": ', "b": "'"}),
    ({"i": "x", "n": "", "b": "yes"}, {"i": "x", "n": "", "b": "yes"}),
    ({"i": "5\n", "s": "\u00e9\\"}, {"i": 5, "s": "\u00e9\\"}),
    ({"i": "9" * (MAX_HELD_STRING + 1)}, {"i": "9" * (MAX_HELD_STRING + 1)}),
]


@pytest.mark.parametrize(("given_", "expected"), CHANGED, ids=lambda value: str(value)[:30])
@given(cuts=cuts)
def test_strings_are_typed(
    given_: dict[str, Any], expected: dict[str, Any], cuts: set[int]
) -> None:
    assert json.loads(read(json.dumps(given_), cuts)) == expected


def test_bare_and_escaped_keys_are_known() -> None:
    assert json.loads(read('{i: "5", "\\u0069": "6", \'n\': \'7\'}')) == {"i": 6, "n": 7}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("123.e-true ", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*PROPERTIES, "other"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    arguments=st.dictionaries(st.sampled_from([*PROPERTIES, "other"]), values, max_size=4),
    indent=st.sampled_from([None, 1]),
    cuts=cuts,
)
def test_what_is_valid_does_not_change(
    arguments: dict[str, Any], indent: int | None, cuts: set[int]
) -> None:
    text = json.dumps(arguments, indent=indent)
    written = read(text, cuts)
    assert read(text, range(len(text))) == written
    for key, value in json.loads(written).items():
        validator = jsonschema.Draft202012Validator(PROPERTIES.get(key, True))
        if validator.is_valid(arguments[key]):
            assert value == arguments[key]
    if jsonschema.Draft202012Validator(SCHEMA).is_valid(arguments):
        assert written == text
