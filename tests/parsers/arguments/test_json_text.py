from __future__ import annotations

import json
import math

import pytest
from backedge.parsers.arguments.json_text import escape_json, word_to_json
from hypothesis import given
from hypothesis import strategies as st


@given(text=st.text())
def test_escaped_text_is_the_inside_of_a_json_string(text: str):
    assert f'"{escape_json(text)}"' == json.dumps(text, ensure_ascii=False)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("True", True), ("false", False), ("None", None), ("null", None),
        ("12", 12), ("-0.5e3", -500.0), ("0x1F", 31), ("1_000", 1000), (".5", 0.5), ("1.", 1.0),
        ("007", 7), ("inf", "inf"), ("nan", "nan"), ("TRUE", "TRUE"),
        ('a"b', 'a"b'), ("1.2.3", "1.2.3"),
    ],
)  # fmt: skip
def test_a_word_becomes_json(word: str, value: object):
    found = json.loads(word_to_json(word))
    assert found == value
    assert type(found) is type(value)


@given(value=st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_python_s_numbers_are_json_s(value: float):
    found = json.loads(word_to_json(repr(value)))
    assert math.isclose(found, value, rel_tol=0)
