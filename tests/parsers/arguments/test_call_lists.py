"""A list of calls is read as JSON or as Python, whatever white space stands in front of them."""

from __future__ import annotations

import json

import pytest
from backedge.parsers.arguments.call_lists import CallListGrammar
from backedge.parsers.arguments.incremental_grammar import Status
from backedge.parsers.arguments.json_calls import CallKeys
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.events import ToolCallArguments, ToolCallStarted
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.arguments.reading import MakeGrammar, read_calls

JSON_CALL = '{"name": "f", "arguments": {"a": 1}}'
cuts = st.sets(st.integers(1, 60), max_size=12)
spaces = st.text(" \t\r\n", max_size=4)


def grammar(*, declared_only: bool = False) -> MakeGrammar:
    return lambda calls: CallListGrammar(calls, CallKeys(), declared_only=declared_only)


@pytest.mark.parametrize("call", [JSON_CALL, "f(a=1)"])
@given(before=spaces, between=spaces, cuts=cuts)
def test_both_are_read(call: str, before: str, between: str, cuts: set[int]) -> None:
    text = f"[{before}{call}{between},{between}{call}{before}] end"
    reading = read_calls(grammar(), text, cuts)
    names = [event.name for event in reading.events if isinstance(event, ToolCallStarted)]
    arguments = [event.text for event in reading.events if isinstance(event, ToolCallArguments)]
    assert (names, list(map(json.loads, arguments))) == (["f", "f"], [{"a": 1}] * 2)
    assert (reading.status, reading.rest) == (Status.DONE, " end")


@given(cuts=cuts)
def test_one_object_is_read(cuts: set[int]) -> None:
    assert len(read_calls(grammar(), JSON_CALL, cuts).events) == 2


@pytest.mark.parametrize("text", ["[1]", "[", "[ \n", "[f]", "[{}]", "text", f"[{' ' * 2000}{{}}]"])
@given(cuts=cuts)
def test_other_text_is_not_a_call(text: str, cuts: set[int]) -> None:
    for pieces in (cuts, range(len(text))):
        reading = read_calls(grammar(), text, pieces, max_held=1024)
        assert (reading.events, reading.status) == ([], Status.NOT_A_CALL)


@pytest.mark.parametrize("call", [JSON_CALL, "f(a=1)"])
def test_the_first_function_must_be_declared(call: str) -> None:
    make = grammar(declared_only=True)
    assert read_calls(make, f"[{call}]").status is Status.NOT_A_CALL
    assert read_calls(make, f"[{call}]", (), {"f": {}}).status is Status.DONE


def test_a_string_is_known_in_both() -> None:
    for text in ("[f(a='x", '[{"name": "x'):
        reader = CallListGrammar(ToolCallEmitter({}), CallKeys())
        assert not reader.in_string
        position = 0
        while position < len(text):
            position = reader.read(text, position)
        assert reader.in_string
