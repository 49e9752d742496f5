"""An object that was given before is left out."""

import json

import pytest
from backedge.offline.plugins import NoDuplicates
from hypothesis import given
from hypothesis import strategies as st

from tests.support import encode, tiny_tokenizer

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


def write(text: str, *, chunk: int = 3) -> list[str]:
    """Return the tokens that a guard avoids after each piece of a text, as texts."""
    guard = NoDuplicates().guard(tiny_tokenizer())
    token_ids = encode(text)
    for start in range(0, len(token_ids), chunk):
        avoided = guard.feed(token_ids[start : start + chunk])
    return sorted(tiny_tokenizer().decode([token_id]) for token_id in avoided)


@pytest.mark.parametrize("chunk", [1, 100])
@pytest.mark.parametrize(
    ("text", "avoids"),
    [
        ('[{"a": 1}, {"a": 1', True),
        ('[{"a": 1}, {"a" : 1 ', True),
        ('{"a": "x", "b": [2]}\n{"b": [2], "a": "x"', True),
        ('[{"a": 1}, {"a": 2', False),
        ('[{"a": 1}, {"a": 1, "b": 2', False),
        ('[{"a": 1}', False),
        ('{"x": [{"a": 1}, {"a": 1', False),
        ("{a} {a", False),
        ('{"a": {"b": 1}} {"a": {"b": 1}', True),
    ],
)
def test_the_tokens_that_would_complete_an_object_again_are_avoided(text, avoids, chunk):
    avoided = write(text, chunk=chunk)
    assert ("}" in avoided) is avoids
    assert all("}" in token for token in avoided)


@given(st.lists(st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=2), max_size=4))
def test_exactly_repeats_are_avoided(values):
    """An object without its last bracket: that is avoided if the text has the object."""
    for position, value in enumerate(values):
        text = json.dumps(values[: position + 1])[:-2]
        assert ("}" in write(text, chunk=1000)) is (value in values[:position])
