"""Parameter text, typed by the declared schema."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from backedge.base.json_schema import JSON_TYPES
from backedge.base.limits import MAX_HELD_VALUE, MAX_NUMBER, MAX_WORD
from backedge.parsers.arguments.type_conversion import text_to_json
from backedge.parsers.arguments.value_between_tags import JSON, STRING, UNDECLARED, SchemaValue
from backedge.parsers.schema import ValueSchema, declare
from hypothesis import given
from hypothesis import strategies as st

ANY = UNDECLARED["json"]
NUMBER = "9" * 300


def read(
    text: str,
    schema: ValueSchema,
    strip: str | None = "\n",
    cuts: Iterable[int] = (),
    *,
    quoted: bool = False,
) -> str:
    return read_value(text, schema, strip, cuts, quoted=quoted)[0]


def read_value(
    text: str,
    schema: ValueSchema,
    strip: str | None = "\n",
    cuts: Iterable[int] = (),
    *,
    quoted: bool = False,
) -> tuple[str, bool]:
    """Return what is written of a value, and whether it is malformed."""
    out: list[str] = []
    malformed: list[bool] = []
    schema_value = SchemaValue(
        out.append, lambda _: malformed.append(True), schema, strip, quoted=quoted
    )
    positions = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    for start, end in itertools.pairwise(positions):
        schema_value.feed(text[start:end])
        longest = MAX_HELD_VALUE if text.strip()[:1] in ("{", "[", "(", '"') else MAX_WORD + 1
        assert len(schema_value.held) <= max(longest, MAX_NUMBER * (NUMBER in text))
    schema_value.finish()
    assert len(malformed) <= 1
    return "".join(out), bool(malformed)


CASES: list[tuple[str, ValueSchema, Any]] = [
    ("3", declare("string"), "3"),
    ("true", declare("string"), "true"),
    ("null", declare("string"), "null"),
    ('{"a": 1}', declare("string"), '{"a": 1}'),
    ("", declare("string"), ""),
    ("3", declare("integer"), 3),
    ("-3.5", declare("number"), -3.5),
    ("1e3", declare("number"), 1000.0),
    ("1e3", declare("integer"), 1000),
    ("many", declare("integer"), "many"),
    ("12 apples", declare("integer"), "12 apples"),
    (f"{NUMBER} apples", declare("integer"), f"{NUMBER} apples"),
    (NUMBER, declare("integer"), int(NUMBER)),
    (f"-{NUMBER * 14}", declare("string", "integer"), -int(NUMBER * 14)),
    (f" {NUMBER}.5 ", declare("number"), float(NUMBER)),
    (NUMBER, declare("string"), NUMBER),
    (NUMBER * 15, declare("integer"), NUMBER * 15),
    ("True", declare("boolean"), True),
    ("false", declare("boolean"), False),
    ("falsehood", declare("boolean"), "falsehood"),
    ("null", declare("string", "null"), None),
    ("None", declare("string", "null"), None),
    ("nullify it", declare("string", "null"), "nullify it"),
    ("3", declare("string", "null"), "3"),
    ("3", declare("string", "integer"), 3),
    ('{"a": [1, true]}', declare("object"), {"a": [1, True]}),
    ("{'a': True, 'b': None}", declare("object"), {"a": True, "b": None}),
    ("[1, 2]", declare("array"), [1, 2]),
    ("x, y", declare("array"), "x, y"),
    ("[1, 2]", declare("object"), [1, 2]),
    ("[INFO] up", declare("object"), "[INFO] up"),
    ("[INFO] up", declare("string", "array"), "[INFO] up"),
    ("{name} is {age}", declare("string", "object"), "{name} is {age}"),
    ("[1, 2]", declare("string", "array"), [1, 2]),
    ("[1, 2] and more", declare("string", "array"), "[1, 2] and more"),
    ("42.5", declare("string", "integer"), "42.5"),
    ("42.0", declare("integer"), 42),
    ("null", declare("integer"), None),
    ('"42"', declare("integer"), 42),
    ('{"a": 1', declare("object"), {"a": 1}),
    ("3", ANY, 3),
    ("hello", ANY, "hello"),
    ('["x"]', ANY, ["x"]),
]


@pytest.mark.parametrize(("text", "declared", "value"), CASES)
@pytest.mark.parametrize("framed", [True, False], ids=["framed", "bare"])
@given(cuts=st.sets(st.integers(1, 30)))
def test_the_declared_type_decides(
    text: str, declared: ValueSchema, value: Any, framed: bool, cuts: set[int]
) -> None:
    written = f"\n{text}\n" if framed else text
    found = json.loads(read(written, declared, cuts=cuts))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "strip", "value"),
    [
        ("\n\nx\n\n", "\n", "\nx\n"),
        ("\nx", "", "\nx"),
        ("  x \n", None, "x"),
        ("  x  y  ", None, "x  y"),
        ("\n", "\n", ""),
        (" ", None, ""),
    ],
)
@given(cuts=st.sets(st.integers(1, 8)))
def test_white_space_that_is_markup(
    text: str, strip: str | None, value: str, cuts: set[int]
) -> None:
    assert json.loads(read(text, declare("string"), strip, cuts)) == value


@given(
    text=st.text(),
    cuts=st.sets(st.integers(1, 40)),
    declared=st.sets(st.sampled_from(sorted(JSON_TYPES)), min_size=1),
    quoted=st.booleans(),
)
def test_the_result_is_json_or_malformed_and_does_not_depend_on_the_cut(
    text: str, cuts: set[int], declared: set[str], quoted: bool
) -> None:
    schema = declare(*declared)
    whole = read_value(text, schema, quoted=quoted)
    if not whole[1]:
        json.loads(whole[0])
    assert read_value(text, schema, cuts=cuts, quoted=quoted) == whole


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("[1, 2] and more", "[1, 2]and more"),
        ('{"a": 1} {"b": 2}', '{"a": 1}{"b": 2}'),
        ("[1, 2]]\n", "[1, 2]]\n"),
        ('{"a" 1}', '{"a" 1}'),
        ('{"a": }', '{"a": }'),
    ],
)
@given(cuts=st.sets(st.integers(1, 20)))
def test_what_is_no_json_goes_out_as_written(text: str, written: str, cuts: set[int]) -> None:
    schema = declare("object", "array")
    assert read_value(text, schema, cuts=cuts) == (written, True)
    assert read_value(text, schema, cuts=range(len(text))) == (written, True)


@given(text=st.text(), cuts=st.sets(st.integers(1, 40)))
def test_a_string_is_kept_as_it_is(text: str, cuts: set[int]) -> None:
    assert json.loads(read(f"\n{text}\n", declare("string"), cuts=cuts)) == text


@given(cuts=st.sets(st.integers(1, 30)))
def test_strings_that_are_written_as_json(cuts: set[int]) -> None:
    for schema in (STRING, ANY, declare("string", "integer")):
        assert read('"42"', schema, cuts=cuts, quoted=True) == '"42"'
        assert read('"say \\"x\\""', schema, cuts=cuts, quoted=True) == '"say \\"x\\""'
        assert json.loads(read('"a" and "b"', schema, cuts=cuts, quoted=True)) == '"a" and "b"'
    # The model says that it is no string.
    assert read('"42"', JSON, cuts=cuts, quoted=True) == "42"
    assert read('"x"', JSON, cuts=cuts, quoted=True) == '"x"'


def test_strings_stream_as_soon_as_they_can_be_nothing_else() -> None:
    for schema in (STRING, declare("string", "null"), declare("string", "array", "number")):
        out: list[str] = []
        schema_value = SchemaValue(out.append, lambda _: None, schema, "\n")
        schema_value.feed("\nHello ")
        assert "".join(out) == '"Hello '


def test_objects_stream_where_no_string_is_allowed() -> None:
    for schema in (declare("object"), declare("object", "null"), JSON):
        out: list[str] = []
        schema_value = SchemaValue(out.append, lambda _: None, schema, "\n")
        schema_value.feed('\n{"a": [1, "x')
        assert "".join(out) == '{"a": [1, "x'


@pytest.mark.parametrize("size", [MAX_HELD_VALUE - 2, MAX_HELD_VALUE - 1, MAX_HELD_VALUE + 1])
def test_a_text_too_long_to_wait_is_a_string(size: int) -> None:
    text = "[" + "1" + " " * (size - 2) + "]"
    schema = declare("string", "array")
    whole = read(text, schema)
    assert json.loads(whole) == ([1] if size < MAX_HELD_VALUE else text)
    for cuts in ({1}, {MAX_HELD_VALUE - 3}, range(1, size, 500)):
        assert read(text, schema, cuts=cuts) == whole


@given(
    text=st.text("\"{}[]:,ab1 \\n'-.", max_size=30),
    declared=st.sets(st.sampled_from(sorted(JSON_TYPES)), min_size=1),
)
def test_a_stream_says_what_the_whole_text_says(text: str, declared: set[str]) -> None:
    """Except that an object or array streams, and is mended, where strings are not allowed."""
    schema = declare("string", *declared)
    assert json.loads(read(text, schema, "")) == json.loads(text_to_json(text, schema))
