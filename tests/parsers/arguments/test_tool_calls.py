from __future__ import annotations

import json

import pytest
from backedge.base.limits import MAX_SEARCHED_ARGUMENTS
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.events import (
    Event,
    ToolCallArguments,
    ToolCallMalformed,
    ToolCallStarted,
    join,
)
from hypothesis import given
from hypothesis import strategies as st

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def read_arguments(events: list[Event]) -> list[str]:
    return [event.text for event in join(events) if isinstance(event, ToolCallArguments)]


def malformations(events: list[Event]) -> list[str]:
    return [event.kind for event in events if isinstance(event, ToolCallMalformed)]


def test_calls_are_numbered_and_the_next_one_ends_the_last():
    calls = ToolCallEmitter({"f": SCHEMA})
    assert (calls.index, calls.open) == (-1, False)
    calls.start("f", "id-1")
    assert (calls.index, calls.open) == (0, True)
    calls.start("g")
    assert (calls.index, calls.name) == (1, "g")
    calls.end()
    assert not calls.open
    assert calls.events == [
        ToolCallStarted(0, "f", "id-1"),
        ToolCallArguments(0, "{}"),
        ToolCallStarted(1, "g"),
        ToolCallArguments(1, "{}"),
    ]


def test_only_an_open_call_ends():
    calls = ToolCallEmitter({})
    calls.end()
    assert calls.events == []


def test_arguments_that_are_there_are_kept():
    calls = ToolCallEmitter({})
    calls.start("f")
    calls.arguments("")
    calls.arguments('{"a": 1}')
    calls.end()
    assert read_arguments(calls.events) == ['{"a": 1}']


def test_arguments_outside_of_a_call_are_nobodys():
    calls = ToolCallEmitter({})
    calls.arguments("{")
    calls.start("f")
    calls.end()
    calls.arguments('{"a": 1}')
    assert read_arguments(calls.events) == ["{}"]


KEYS = st.text(max_size=5).filter(lambda key: key and not set("<>=\"'\n") & set(key))


@given(members=st.dictionaries(KEYS, st.integers(), max_size=4))
def test_members_make_up_an_object(members: dict[str, int]):
    calls = ToolCallEmitter({})
    calls.start("f")
    for key, value in members.items():
        calls.member(key)
        calls.arguments(str(value))
    calls.end()
    assert [json.loads(text) for text in read_arguments(calls.events)] == [members]


@pytest.mark.parametrize("key", ['a"', "<arg_key>a", "=a"])
def test_a_declared_key_with_pieces_of_its_tag_leaves_the_call_open(key: str):
    calls = ToolCallEmitter({"f": {"properties": {"a": {"type": "string"}}}})
    calls.start("f")
    calls.member(key)
    calls.arguments("1")
    calls.end()
    assert malformations(calls.events) == ["invalid_key"]
    assert not read_arguments(calls.events)[0].endswith("}")


@pytest.mark.parametrize("key", ["", "path\n/tmp/x", "a=b", " a", "b"])
@pytest.mark.parametrize("more", [{}, {"additionalProperties": False}, {"patternProperties": {}}])
def test_a_key_that_is_not_declared_is_a_key(key: str, more: dict[str, object]):
    calls = ToolCallEmitter({"f": {"properties": {"a": {"type": "string"}}, **more}})
    calls.start("f")
    calls.member(key)
    calls.arguments("1")
    calls.end()
    assert malformations(calls.events) == []
    assert json.loads(read_arguments(calls.events)[0]) == {key: 1}


def test_a_key_that_comes_twice_leaves_the_call_open() -> None:
    calls = ToolCallEmitter({})
    calls.start("f")
    for key in ("a", "b", "a"):
        calls.member(key)
        calls.arguments("1")
    calls.end()
    assert malformations(calls.events) == ["invalid_key"]


@pytest.mark.parametrize(
    ("text", "keys", "kinds"),
    [
        ("word", ["a"], ["extra_text"]),
        (">", ["a"], []),
        (">", [], ["missing_parameter"]),
        (" \n", [], []),
    ],
)
def test_text_between_parameters(text: str, keys: list[str], kinds: list[str]):
    schema = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    calls = ToolCallEmitter({"f": schema})
    calls.start("f")
    for char in text:
        calls.stray(char)
    for key in keys:
        calls.member(key)
        calls.arguments("1")
    calls.end()
    assert malformations(calls.events) == kinds
    assert ("".join(read_arguments(calls.events)).startswith(text)) == (text == "word")


@pytest.mark.parametrize("word", ["", "word"])
def test_white_space_between_parameters_is_not_held(word: str):
    calls = ToolCallEmitter({})
    calls.start("f")
    for char in word + " " * 10_000:
        calls.stray(char)
    calls.end()
    assert bool(malformations(calls.events)) == bool(word)
    assert "".join(read_arguments(calls.events)).strip() == (word or "{}")


@pytest.mark.parametrize(("length", "searched"), [(10, True), (MAX_SEARCHED_ARGUMENTS, False)])
def test_arguments_are_searched_for_markup_up_to_a_limit(length: int, searched: bool) -> None:
    calls = ToolCallEmitter({}, lambda *_: True)
    calls.start("f")
    calls.member("a")
    calls.arguments('"' + "x" * length)
    calls.arguments('"')
    calls.end()
    assert malformations(calls.events) == ["swallowed_markup"] * searched
