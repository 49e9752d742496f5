"""An object that was given before is left out."""

import json

import pytest
from backedge.offline.plugins import NoDuplicates
from hypothesis import given
from hypothesis import strategies as st

clean = NoDuplicates().clean
# text, cleaned
CASES = [
    ('{"a": 1}\n{"a": 1}\n{"b": 2}', '{"a": 1}\n{"b": 2}'),
    ('{"a": 1, "b": 2} {"b":2,"a":1}.', '{"a": 1, "b": 2}.'),
    ('[{"a": 1}, {"a": 1}, {"a": 2}]', '[{"a": 1}, {"a": 2}]'),
    ('[{"a": 1}, {"a": 1}]', '[{"a": 1}]'),
    ('{"x": [{"a": 1}, {"a": 1}]}', '{"x": [{"a": 1}, {"a": 1}]}'),
    ('{"a": "{}"} {}', '{"a": "{}"} {}'),
    ("{a} {a}", "{a} {a}"),
    ('{"a": 1} {"a": 1', '{"a": 1} {"a": 1'),
    ("plain text", "plain text"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_duplicates(text, expected):
    assert clean(text) == expected


@given(st.lists(st.dictionaries(st.text(max_size=2), st.integers(0, 1), max_size=2)))
def test_the_first_of_equal_objects_stay_in_order(values):
    text = clean(json.dumps(values))
    firsts = [value for position, value in enumerate(values) if value not in values[:position]]
    assert json.loads(text) == firsts


@given(st.text('{}[]",:a1 \\\n'))
def test_it_never_fails_and_never_adds(text):
    cleaned = clean(text)
    assert len(cleaned) <= len(text)
    assert clean(cleaned) == cleaned


def test_deep_nesting_is_left_alone():
    text = '{"a":' * 50_000 + "1" + "}" * 50_000
    assert clean(text + text) == text + text
