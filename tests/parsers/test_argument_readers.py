"""What reads a call's arguments, by the state and the format."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from backedge.parsers.argument_readers import begin_value, build_grammar
from backedge.parsers.arguments.call_lists import CallListGrammar
from backedge.parsers.arguments.incremental_grammar import IncrementalGrammar, Status
from backedge.parsers.arguments.json_calls import JsonCallGrammar
from backedge.parsers.arguments.marked_object import MarkedObject
from backedge.parsers.arguments.python_calls import PythonCallGrammar
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.arguments.typed_json import TypedJson
from backedge.parsers.arguments.xml_elements import XmlElements
from backedge.parsers.events import ToolCallArguments
from backedge.parsers.format import GRAMMAR_STATES, Format, State

GRAMMARS: dict[State, type[IncrementalGrammar]] = {
    State.ARGUMENTS: TypedJson,
    State.ELEMENTS: XmlElements,
    State.JSON_CALLS: JsonCallGrammar,
    State.PYTHON_CALLS: PythonCallGrammar,
    State.PYTHON_LINES: PythonCallGrammar,
    State.CALL_LIST: CallListGrammar,
}


@pytest.mark.parametrize("state", GRAMMARS, ids=lambda state: state.name)
def test_each_state_has_its_grammar(state: State) -> None:
    assert GRAMMARS.keys() == GRAMMAR_STATES
    format_ = Format("a format", {}, source="this test", tag_prefix="]")
    assert type(build_grammar(state, format_, ToolCallEmitter({}))) is GRAMMARS[state]


def test_arguments_with_marks_have_a_grammar_of_their_own() -> None:
    format_ = Format("a format", {}, source="this test", quotes=("<q>",))
    grammar = build_grammar(State.ARGUMENTS, format_, ToolCallEmitter({}))
    assert type(grammar) is MarkedObject


@pytest.mark.parametrize("declared_only", [False, True])
def test_the_format_says_whether_functions_must_be_declared(*, declared_only: bool) -> None:
    format_ = Format("a format", {}, source="this test", declared_only=declared_only)
    calls = ToolCallEmitter({})
    grammar = build_grammar(State.PYTHON_LINES, format_, calls)
    grammar.read("f()")
    assert (grammar.status is Status.NOT_A_CALL) is declared_only
    assert bool(calls.events) is not declared_only


FORMAT = Format("ours", {}, source="a test")
PROPERTIES = {"n": {"type": "integer"}, "s": {"type": "string"}, "b": {"type": "boolean"}}


def read(state: State, key: str, text: str, format_: Format = FORMAT, **declared: Any) -> Any:
    calls = ToolCallEmitter({"f": {"properties": {**PROPERTIES, **declared}}})
    calls.start("f")
    value = begin_value(calls, format_, state, key)
    value.feed(text)
    value.finish()
    calls.end()
    return json.loads(
        "".join(event.text for event in calls.events if isinstance(event, ToolCallArguments))
    )


@pytest.mark.parametrize(
    ("state", "key", "text", "expected"),
    [
        (State.VALUE, "n", "3", {"n": 3}),
        (State.VALUE, "s", "3", {"s": "3"}),
        (State.VALUE, "x", "3", {"x": "3"}),
        (State.STRING, "n", "3", {"n": 3}),
        (State.STRING, "n", "x", {"n": "x"}),
        (State.JSON, "s", "3", {"s": 3}),
        (State.JSON, "s", "false", {"s": False}),
        (State.JSON, "s", "Oslo", {"s": "Oslo"}),
        (State.JSON, "s", "007", {"s": "007"}),
        (State.JSON, "n", "1.0", {"n": 1.0}),
        (State.JSON, "b", "1", {"b": 1}),
        (State.JSON, "s", "null", {"s": None}),
        (State.JSON, "input", '{"n": 3}', {"input": {"n": 3}}),
        (State.STRING, "input", '{"n": 3}', {"input": '{"n": 3}'}),
    ],
)
def test_by_state(state: State, key: str, text: str, expected: Any) -> None:
    assert read(state, key, text) == expected


def test_an_undeclared_value_is_what_the_format_says() -> None:
    assert read(State.VALUE, "x", "3", replace(FORMAT, undeclared_type="json")) == {"x": 3}
