"""Expressions of a checkpoint's description are read as syntax, within bounds."""

from __future__ import annotations

import contextlib

import pytest
from backedge.base.limits import MAX_PATTERN_DEPTH, MAX_PATTERN_LENGTH
from backedge.parsers.literal_patterns import Capture, Part, PatternError, read_pattern
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\s*<\|a\|>\n?", [(Part.GAP, "<|a|>", Part.GAP)]),
        (r"(?:a|b)c", [("ac",), ("bc",)]),
        ("(?:x)?y", [("xy",), ("y",)]),
        (r"<(?P<name>[^>\n]+)>", [("<", Capture("name"), ">")]),
        (r"end\s*|$", [("end", Part.GAP), (Part.END,)]),
        (r'{"name"', [('{"name"',)]),
    ],
)
def test_expressions_are_read(pattern: str, expected: object) -> None:
    assert read_pattern(pattern) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "a{2}",
        "ab+",
        "a.*b",
        r"\d",
        "[ab]",
        "(?=a)",
        r"(?P<a>x)",
        "(?:a",
        "a)",
        "^a",
        "\\",
        "(?:a|b)" * 6,
        "a" * (MAX_PATTERN_LENGTH + 1),
        "(?:" * (MAX_PATTERN_DEPTH + 1) + ")" * (MAX_PATTERN_DEPTH + 1),
    ],
)
def test_other_expressions_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        read_pattern(pattern)


@given(st.text("(?:)|[]{}\\sP<a>*+.^$ ", max_size=60))
def test_no_expression_raises_anything_else(pattern: str) -> None:
    with contextlib.suppress(PatternError):
        read_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?P<name>" * 100, "(?P<a>[" + "\\" * 900, "(?:a|" * 200, "[" * MAX_PATTERN_LENGTH),
        *("(?P<a>" + unit * 200 for unit in ("[a]", "[^]", "[]", "[^]a]", "[]a]")),
    ],
)
def test_an_expression_of_openings_alone_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        read_pattern(pattern)
