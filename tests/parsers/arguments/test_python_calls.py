"""Python calls become JSON calls, however the text is cut."""

from __future__ import annotations

import json

import pytest
from backedge.base.limits import MAX_BEGINNING, MAX_TOOL_NAME
from backedge.parsers.arguments.incremental_grammar import Status
from backedge.parsers.arguments.python_calls import PythonCallGrammar
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.events import ToolCallArguments, ToolCallStarted
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.arguments.reading import VALUES, MakeGrammar, Reading, read_calls

PARAMETERS = {"f": {"type": "object", "properties": {"first": {}, "second": {}}}}
cuts = st.sets(st.integers(1, 60), max_size=12)


def grammar(*, bracketed: bool = True, declared_only: bool = False) -> MakeGrammar:
    return lambda calls: PythonCallGrammar(calls, bracketed=bracketed, declared_only=declared_only)


def parse_calls(reading: Reading) -> list[tuple[str, object]]:
    names = [event.name for event in reading.events if isinstance(event, ToolCallStarted)]
    texts = [""] * len(names)
    for event in reading.events:
        if isinstance(event, ToolCallArguments):
            texts[event.index] += event.text
    return list(zip(names, map(read_json, texts), strict=True))


def read_json(text: str) -> object:
    """Return the value of JSON text; the text itself if a call was left open."""
    try:
        return json.loads(text)
    except ValueError:
        return text


CASES = [
    ("[f(a=1, b='x'), g()]", [("f", {"a": 1, "b": "x"}), ("g", {})], Status.DONE, ""),
    (" [\nf( a = (1, None) ,b={'c': True} )]!",
     [("f", {"a": [1, None], "b": {"c": True}})], Status.DONE, "!"),
    ("[f('x', 2, 3)]", [("f", '{"first": "x", "second": 2, "2": 3')], Status.DONE, ""),
    ("[f(a=)]", [], Status.NOT_A_CALL, "f(a=)]"),
    ("[f(a=", [], Status.NOT_A_CALL, "f(a="),
    ("[f(", [], Status.NOT_A_CALL, "f("),
    ("[f(a='x", [("f", '{"a": "x')], Status.DONE, ""),
    ("[f(a=@x)]", [], Status.NOT_A_CALL, "f(a=@x)]"),
    ("[f(a=1, b=@x)]", [("f", '{"a": 1, "b": @x)]')], Status.DONE, ""),
    ("[f(a=x)]", [], Status.NOT_A_CALL, "f(a=x)]"),
    ("[f(a=1 + 2)]", [], Status.NOT_A_CALL, "f(a=1 + 2)]"),
    ("[f(a=f'{x}')]", [], Status.NOT_A_CALL, "f(a=f'{x}')]"),
    ("[f(**x)]", [], Status.NOT_A_CALL, "f(**x)]"),
    ("[f(a=1, b=x.y(2), c=f'{z}')]", [("f", '{"a": 1, "b": x.y(2), c=f\'{z}\')]')],
     Status.DONE, ""),
    ("[f(a=1), g(b=x)] end", [("f", {"a": 1})], Status.NOT_A_CALL, "g(b=x)] end"),
    ("[f(), @ g()]", [("f", {})], Status.NOT_A_CALL, "@ g()]"),
    ("[f(command='sed -n '360,450p' f'), g()]",
     [("f", {"command": "sed -n '360,450p' f"}), ("g", {})], Status.DONE, ""),
    ("[weather.get-now()]", [("weather.get-now", {})], Status.DONE, ""),
    ("[]", [], Status.NOT_A_CALL, ""),
    ("[f]", [], Status.NOT_A_CALL, "f]"),
    ("[f", [], Status.NOT_A_CALL, "f"),
    ("no", [], Status.NOT_A_CALL, "no"),
    ("[1]", [], Status.NOT_A_CALL, "1]"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "calls", "status", "rest"), CASES)
@given(cuts=cuts)
def test_calls_in_a_list(text, calls, status, rest, cuts):
    reading = read_calls(grammar(), text, cuts, PARAMETERS)
    assert (parse_calls(reading), reading.status, reading.rest) == (calls, status, rest)


@given(cuts=cuts)
def test_calls_on_lines(cuts):
    reading = read_calls(grammar(bracketed=False), "f(a=1)\n\ng(b=[2])\n", cuts)
    assert parse_calls(reading) == [("f", {"a": 1}), ("g", {"b": [2]})]


@given(cuts=cuts)
def test_the_first_function_must_be_declared(cuts):
    make = grammar(declared_only=True)
    assert read_calls(make, "[g()]", cuts, PARAMETERS).status is Status.NOT_A_CALL
    assert parse_calls(read_calls(make, "[f(), g()]", cuts, PARAMETERS)) == [("f", {}), ("g", {})]


def test_a_beginning_that_is_too_long_is_not_a_call():
    text = f"[f({' ' * MAX_BEGINNING}a=1)]"
    reading = read_calls(grammar(), text, range(len(text)), max_held=MAX_BEGINNING)
    assert (reading.events, reading.rest) == ([], text[1:])


def test_a_name_that_is_too_long_is_not_a_call():
    reading = read_calls(grammar(), f"[{'f' * (MAX_TOOL_NAME + 1)}()]", max_held=MAX_TOOL_NAME + 1)
    assert (reading.events, reading.status) == ([], Status.NOT_A_CALL)


def test_markers_count_outside_strings_only():
    python = PythonCallGrammar(ToolCallEmitter({}), bracketed=True)
    python.read("[f(a='x")
    assert python.in_string
    python.read("'")
    assert not python.in_string


names = st.from_regex(r"[a-z]{1,8}", fullmatch=True)


@given(
    calls=st.lists(
        st.tuples(names, st.dictionaries(names, VALUES, max_size=3)), min_size=1, max_size=3
    ),
    cuts=cuts,
)
def test_what_python_writes_is_read(calls, cuts):
    written = ", ".join(
        f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        for name, arguments in calls
    )
    reading = read_calls(grammar(), f"[{written}]", cuts)
    assert parse_calls(reading) == calls
    assert (reading.status, reading.rest) == (Status.DONE, "")


@given(text=st.text("[](),=f1'\"{}: \\.;", max_size=40), cuts=cuts)
def test_any_text_gives_the_same_however_it_is_cut(text, cuts):
    assert read_calls(grammar(), "[f(" + text, cuts) == read_calls(grammar(), "[f(" + text)
