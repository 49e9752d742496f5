"""JSON in strings: as json reads it, but for deep nesting."""

import json

import pytest
from backedge.base.nested_json import decode_json

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
