"""JSON is copied, Python's literals become JSON, broken values are repaired; at any cut."""

from __future__ import annotations

import json
from collections.abc import Collection

import pytest
from backedge.base.limits import MAX_NUMBER, MAX_WORD
from backedge.parsers.arguments.incremental_grammar import Status
from backedge.parsers.arguments.json_repair import JsonRepairer
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.arguments.reading import LONG_NUMBERS, read_value

QUOTE = '<|"|>'


def read(text: str, cuts: Collection[int] = (), quotes: tuple[str, ...] = ()) -> str:
    """Return the JSON of `text`, fed in pieces; what it holds back is bounded."""
    out: list[str] = []
    literal = JsonRepairer(out.append, quotes)
    longest = MAX_NUMBER if "0" * MAX_WORD in text else MAX_WORD
    return read_value(literal, out, text, cuts, longest + 1)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | LONG_NUMBERS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)
brackets = st.lists(json_values, max_size=3) | st.dictionaries(
    st.text(max_size=4), json_values, max_size=3
)
cuts = st.sets(st.integers(1, 120), max_size=20)


@given(value=brackets, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]), cuts=cuts)
def test_json_is_not_changed(
    value: object, ascii_only: bool, indent: int | None, cuts: set[int]
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert read(text, cuts) == text


@given(value=brackets, cuts=cuts)
def test_python_is_json(value: object, cuts: set[int]) -> None:
    assert json.loads(read(repr(value), cuts)) == value


@given(text=st.text("{}[](),:'\"\\ \n\tabu01-.eNTn" + QUOTE, max_size=60), cuts=cuts)
def test_whatever_it_is_the_result_is_json_and_does_not_depend_on_the_cut(
    text: str, cuts: set[int]
) -> None:
    text = "{" + text
    whole = read(text, (), (QUOTE,))
    json.loads(whole)
    assert read(text, cuts, (QUOTE,)) == whole
    assert read(text, range(len(text)), (QUOTE,)) == whole


REPAIRED = [
    ("{'a': 'it\\'s \"q\"'}", {"a": 'it\'s "q"'}),
    ("{'a': (1, True, None,)}", {"a": [1, True, None]}),
    ("{a: 1, 'b': word, \"c\": 1_000}", {"a": 1, "b": "word", "c": 1000}),
    ('{"a": 1, "b": [1, 2,],}', {"a": 1, "b": [1, 2]}),
    ('{"a": "x" "b": 1}', {"a": "x", "b": 1}),
    ('{"a": "line\nbreak\ttab"}', {"a": "line\nbreak\ttab"}),
    ('{"a": "\\d+ \\x41 \\u00e9"}', {"a": "\\d+ A é"}),
    ('{"a": "\\u12"}', {"a": "\\u12"}),
    ("{'a': b'x', 'c': r'y'}", {"a": "x", "c": "y"}),
    ('{"a": [1, {"b": "c', {"a": [1, {"b": "c"}]}),
    ('{"a": [1, {"b', {"a": [1, {"b": None}]}),
    ('{"a":', {"a": None}),
    ('{"a": 12', {"a": 12}),
    ('{"a": @x}', {"a": "@x"}),
    ('{"a": , "b": [1,,2,],, "c":}', {"a": None, "b": [1, 2], "c": None}),
    ('{, "a": {"b":,}, :1}', {"a": {"b": None}, ":1": None}),
    ('{"a": inf, "b": -nan, "c": 0x1F, "d": .5, "e": 1e999}',
     {"a": "inf", "b": "-nan", "c": 31, "d": 0.5, "e": 1e999}),
    ("{1: 2}", {"1": 2}),
    (f'{{"a": {"9" * 400}x}}', {"a": "9" * 400 + "x"}),
    (f'{{a:{QUOTE}He said "x" \\n{QUOTE},n:3}}', {"a": 'He said "x" \\n', "n": 3}),
    (f"{{a:[{QUOTE}x{QUOTE},{QUOTE}<|{QUOTE}]}}", {"a": ["x", "<|"]}),
    (f"{{a:b:{QUOTE}x{QUOTE}:1}}", {"a": "b", "x": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), REPAIRED)
@given(cuts=cuts)
def test_what_is_no_json_is_repaired(text: str, value: object, cuts: set[int]) -> None:
    assert json.loads(read(text, cuts, (QUOTE,))) == value


def test_it_says_where_its_value_ends() -> None:
    literal = JsonRepairer(lambda _: None)
    assert literal.read('{"a": "}"} behind') == len('{"a": "}"}')
    assert literal.status is Status.DONE


def test_it_stops_at_what_cannot_be_part_of_a_value() -> None:
    literal = JsonRepairer(lambda _: None)
    assert literal.read('{"a": 1</tool_call>') == len('{"a": 1')
    assert literal.status is Status.UNEXPECTED
