"""How deep JSON is nested, and JSON in strings: as json reads it, but for deep nesting."""

import json

import pytest
from backedge.base.json_types import decode_json, is_deeper


@pytest.mark.parametrize(
    ("value", "depth"), [(1, 0), ("[[[", 0), ([], 1), ({}, 1), ([[1], {"a": [2]}], 3)]
)
def test_the_depth_of_a_value(value, depth):
    assert not is_deeper(value, depth)
    assert depth == 0 or is_deeper(value, depth - 1)
    assert not is_deeper(value, 128)


GOOD = ["{}", "[1, 2]", '{"a": {"b": [null]}}', '"x"', "[" * 128 + "]" * 128, "[[],[],{}]" * 1]


@pytest.mark.parametrize("text", GOOD)
def test_good_text(text):
    assert decode_json(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    ["", "{", "no json", "[" * 129 + "]" * 129, "[" * 100_000, '{"a":' * 500 + "1" + "}" * 500],
)
def test_bad_text(text):
    with pytest.raises(ValueError, match=r"."):
        decode_json(text)


def test_many_brackets_beside_each_other_are_not_deep():
    assert decode_json(json.dumps([[[]]] * 1000)) == [[[]]] * 1000
