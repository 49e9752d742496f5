"""Parameter text, typed by the declared schema."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from backedge.parsers.arguments.json_repair import MAX_WORD
from backedge.parsers.arguments.schema_value import UNDECLARED, SchemaValue
from hypothesis import given
from hypothesis import strategies as st

ANY = UNDECLARED["json"]


def read(
    text: str, kinds: frozenset[str], strip: str | None = "\n", cuts: Iterable[int] = ()
) -> str:
    out: list[str] = []
    schema_value = SchemaValue(out.append, kinds, strip)
    positions = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    for start, end in itertools.pairwise(positions):
        schema_value.feed(text[start:end])
        assert len(schema_value.held) <= MAX_WORD + 1
    schema_value.finish()
    return "".join(out)


def kinds(*names: str) -> frozenset[str]:
    return frozenset(names)


CASES: list[tuple[str, frozenset[str], Any]] = [
    ("3", kinds("string"), "3"),
    ("true", kinds("string"), "true"),
    ("null", kinds("string"), "null"),
    ('{"a": 1}', kinds("string"), '{"a": 1}'),
    ("", kinds("string"), ""),
    ("3", kinds("integer"), 3),
    ("-3.5", kinds("number"), -3.5),
    ("1e3", kinds("number"), 1000.0),
    ("many", kinds("integer"), "many"),
    ("12 apples", kinds("integer"), "12 apples"),
    ("True", kinds("boolean"), True),
    ("false", kinds("boolean"), False),
    ("falsehood", kinds("boolean"), "falsehood"),
    ("null", kinds("string", "null"), None),
    ("None", kinds("string", "null"), None),
    ("nullify it", kinds("string", "null"), "nullify it"),
    ("3", kinds("string", "null"), "3"),
    ("3", kinds("string", "integer"), 3),
    ('{"a": [1, true]}', kinds("object"), {"a": [1, True]}),
    ("{'a': True, 'b': None}", kinds("object"), {"a": True, "b": None}),
    ("[1, 2]", kinds("array"), [1, 2]),
    ("x, y", kinds("array"), "x, y"),
    ("[1, 2]", kinds("object"), "[1, 2]"),
    ('{"a": 1', kinds("object"), {"a": 1}),
    ("3", ANY, 3),
    ("hello", ANY, "hello"),
    ('["x"]', ANY, ["x"]),
]


@pytest.mark.parametrize(("text", "declared", "value"), CASES)
@pytest.mark.parametrize("framed", [True, False], ids=["framed", "bare"])
@given(cuts=st.sets(st.integers(1, 30)))
def test_the_declared_type_decides(
    text: str, declared: frozenset[str], value: Any, framed: bool, cuts: set[int]
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
    assert json.loads(read(text, kinds("string"), strip, cuts)) == value


@given(
    text=st.text(),
    cuts=st.sets(st.integers(1, 40)),
    declared=st.sets(st.sampled_from(sorted(ANY)), min_size=1),
)
def test_whatever_it_is_the_result_is_json_and_does_not_depend_on_the_cut(
    text: str, cuts: set[int], declared: set[str]
) -> None:
    whole = read(text, frozenset(declared))
    json.loads(whole)
    assert read(text, frozenset(declared), cuts=cuts) == whole


@given(text=st.text(), cuts=st.sets(st.integers(1, 40)))
def test_a_string_is_kept_as_it_is(text: str, cuts: set[int]) -> None:
    assert json.loads(read(f"\n{text}\n", kinds("string"), cuts=cuts)) == text
