"""Call objects are read with their keys in any order, however the text is cut."""

from __future__ import annotations

import json

import pytest
from backedge.base.limits import MAX_TOOL_NAME, MAX_WAITING_CALL
from backedge.parsers.arguments.incremental_grammar import Status
from backedge.parsers.arguments.json_calls import CallKeys, JsonCallGrammar
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.events import ToolCallArguments, ToolCallStarted
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.arguments.reading import CALLS, MakeGrammar, Reading, read_calls

cuts = st.sets(st.integers(1, 80), max_size=12)


def grammar(keys: CallKeys | None = None, *, declared_only: bool = False) -> MakeGrammar:
    return lambda calls: JsonCallGrammar(calls, keys or CallKeys(), declared_only=declared_only)


def parse_calls(reading: Reading) -> list[tuple[str, str | None, object]]:
    started = [event for event in reading.events if isinstance(event, ToolCallStarted)]
    texts = [event.text for event in reading.events if isinstance(event, ToolCallArguments)]
    assert len(started) == len(texts)
    return [
        (event.name, event.id, json.loads(text)) for event, text in zip(started, texts, strict=True)
    ]


F = ("f", None, {"a": 1})
CASES = [
    ('{"name": "f", "arguments": {"a": 1}}', [F], ""),
    ('{"arguments": {"a": 1}, "name": "f"}', [F], ""),
    ('[{"name": "f", "arguments": {"a": 1}}, {"name": "g"}] x', [F, ("g", None, {})], " x"),
    ('{"name": "f", "parameters": {"a": 1}}; {"name": "g"}', [F, ("g", None, {})], ""),
    ('{"name": "f", "arguments": {"a": 1}} text', [F], "text"),
    ('{"id": "7", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}',
     [("f", "7", {"a": 1})], ""),
    ('{"name": "f", "arguments": "{\\"a\\": 1}"}', [F], ""),
    ('{"name": "f", "arguments": "{\\"a\\": \\"\\ud83d\\ude00\\"}"}',
     [("f", None, {"a": "😀"})], ""),
    ('{"name": "f", "arguments": null}', [("f", None, {})], ""),
    ("{'name': 'f', 'arguments': {'a': True,}}", [("f", None, {"a": True})], ""),
    ('{"name": "f", "arguments": {"a": 1', [F], ""),
    ('{"name": "f", "arguments": {"a": 1} @ }', [F], ""),
    ('{"other": [1, {"name": "g"}], "name": "f", "arguments": {"a": 1}}', [F], ""),
    ('{"name": "f", "arguments": {"a": 1}, "parameters": {"b": 2}}', [F], ""),
    ('{"name": "f", "arguments": null, "parameters": {"a": 1}}', [F], ""),
    ('{"parameters": {"a": 1}, "arguments": {"b": 2}, "name": "f", "name": "g"}', [F], ""),
    ('{"name": "f", "arguments": ""}', [("f", None, {})], ""),
    ('{"name": "f", "arguments": " \\n{\\"a\\": 1}"}', [F], ""),
    ('{name: "f", arguments: {a: 1}}', [F], ""),
    ('{"name": "f", "arguments": {"a": 1}, "note", "other"}', [F], ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "calls", "rest"), CASES)
@given(cuts=cuts)
def test_calls_are_read(text, calls, rest, cuts):
    reading = read_calls(grammar(), text, cuts)
    assert (parse_calls(reading), reading.rest) == (calls, rest)


NO_CALLS = [
    "text", "[1]", '{"a": 1}', '[{"arguments": {}}]', "]", '{"name": ""}', '{"name": null}',
    '{"name": ["f"]}', '{"name": 1, "arguments": {}}', '{"name": "f", "arguments": "no dict"}',
    '{"name": "f", "arguments": [1]}', '{"name": "f", "arguments": 1}', '{"arguments": true}',
    '{"name": "f", "arguments": "[1]"}', '{"name": "f", "arguments": "\\"x\\""}',
    '{"name": "f" @', '{"arguments": {"a": 1}', "'x", "'<call>",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_CALLS)
@given(cuts=cuts)
def test_other_text_is_not_a_call(text, cuts):
    reading = read_calls(grammar(), text, cuts)
    assert (reading.events, reading.status) == ([], Status.NOT_A_CALL)


@pytest.mark.parametrize("other", [text for text in NO_CALLS if text[0] == "{"])
@given(cuts=cuts)
def test_another_object_behind_a_call_is_not_a_call(other, cuts):
    reading = read_calls(grammar(), f'[{{"name": "f", "arguments": {{"a": 1}}}}, {other}', cuts)
    assert (parse_calls(reading), reading.status) == ([F], Status.NOT_A_CALL)


def test_an_empty_array_is_no_call():
    assert read_calls(grammar(), "[]").status is Status.DONE
    assert read_calls(grammar(declared_only=True), "[]").status is Status.NOT_A_CALL


def test_calls_are_announced():
    reader = JsonCallGrammar(ToolCallEmitter({}), CallKeys())
    text = '[{"name": "f"}, {"name": "g"}]'
    announced = []
    position = reader.read(text)
    while reader.status is Status.NEXT_CALL:
        announced.append(position)
        position = reader.read(text, position)
    assert announced == [1, 16]


@given(cuts=cuts)
def test_the_name_is_the_key(cuts):
    reading = read_calls(grammar(CallKeys(name_is_key=True)), '[{"f": {"a": 1}}, {"g": {}}]', cuts)
    assert parse_calls(reading) == [F, ("g", None, {})]


@given(cuts=cuts)
def test_the_first_function_must_be_declared(cuts):
    make, declared = grammar(declared_only=True), {"f": {"type": "object"}}
    assert read_calls(make, '{"name": "g"}', cuts, declared).status is Status.NOT_A_CALL
    calls = parse_calls(read_calls(make, '{"name": "f"}, {"name": "g"}', cuts, declared))
    assert [name for name, _, _ in calls] == ["f", "g"]


@pytest.mark.parametrize(
    "text",
    [
        f'{{"name": "{"f" * (MAX_TOOL_NAME + 1)}"}}',
        f'{{"arguments": {{"a": "{"x" * MAX_WAITING_CALL}"}}',
    ],
    ids=["name", "arguments before their name"],
)
def test_what_waits_is_bounded(text):
    assert read_calls(grammar(), text).status is Status.NOT_A_CALL


def test_markers_count_outside_strings_only():
    reader = JsonCallGrammar(ToolCallEmitter({}), CallKeys())
    text = '{"name": "f", "arguments": {"a": "x'
    assert reader.read(text) == 0
    assert reader.status is Status.NEXT_CALL
    reader.read(text)
    assert reader.in_string
    reader.read('"')
    assert not reader.in_string


@given(
    calls=CALLS,
    ascii_only=st.booleans(),
    nested=st.booleans(),
    cuts=cuts,
)
def test_arguments_are_the_json_that_was_written(calls, ascii_only, nested, cuts):
    text = json.dumps(
        [
            {"name": name, "arguments": json.dumps(arguments) if nested else arguments}
            for name, arguments in calls
        ],
        ensure_ascii=ascii_only,
    )
    expected = [(name, None, arguments) for name, arguments in calls]
    assert parse_calls(read_calls(grammar(), text, cuts)) == expected


@given(text=st.text("[]{},:;\"'\\ nfa1", max_size=40), cuts=cuts)
def test_any_text_gives_the_same_however_it_is_cut(text, cuts):
    text = '{"name": "f", "arguments": {' + text
    assert read_calls(grammar(), text, cuts) == read_calls(grammar(), text)
