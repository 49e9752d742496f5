"""What a terminal would obey, hide or turn around is written out."""

from __future__ import annotations

import unicodedata

import pytest
from backedge.base.hidden_characters import escape_hidden, is_hidden, without_surrogates
from hypothesis import given
from hypothesis import strategies as st

CASES = [
    ("plain text, and <markup>", "plain text, and <markup>"),
    ("line\nbreak\ttab\r", r"line\nbreak\ttab\r"),
    ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
    ("\x9b31m", r"\x9b31m"),
    ("a\u202eb", r"a\u{202e}b"),
    ("a\u200bb\ufeff", r"a\u{200b}b\u{feff}"),
    ("a\u00a0b\u3000", r"a\xa0b\u{3000}"),
    ("\udce4\udcb8", r"\xe4\xb8"),
    ("\ud800", r"\u{d800}"),
    ("\U000e0041", r"\u{e0041}"),
    ("x\ufe0f", r"x\u{fe0f}"),
    ("\u3164", r"\u{3164}"),
    ("日本 \N{SNOWMAN} é", "日本 \N{SNOWMAN} é"),
]


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_is_written_out(text: str, shown: str) -> None:
    assert escape_hidden(text) == shown


@given(st.text())
def test_nothing_hidden_is_left(text: str) -> None:
    shown = escape_hidden(text)
    assert not any(is_hidden(char) for char in shown)
    assert not any(unicodedata.category(char).startswith("C") for char in shown)


@given(st.text(st.characters(codec="utf-8")))
def test_json_keeps_all_but_surrogates(text: str) -> None:
    assert without_surrogates(text) == text
    assert without_surrogates(f"{text}\udc80") == rf"{text}\x80"
