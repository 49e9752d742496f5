"""Lines and JSON of commands: styles are ours, everything else is visible."""

from __future__ import annotations

import io
import json

import click
import pytest
from backedge.base.hidden_characters import is_hidden
from backedge.base.terminal import Styled, format_json, format_line, print_text
from hypothesis import given
from hypothesis import strategies as st


@given(st.text(), st.text())
def test_only_our_own_styles_are_obeyed(plain: str, styled: str) -> None:
    line = format_line([plain, Styled(styled, "red")])
    assert not any(is_hidden(char) for char in click.unstyle(line))
    assert line.count("\x1b") == 2


def test_a_line_stays_one_line() -> None:
    file = io.StringIO()
    print_text("a\nb", "c", file=file)
    assert file.getvalue() == "a\\nb\nc\n"


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_is_ascii_or_visible_and_the_same(value: object) -> None:
    text = format_json(value)
    assert not any(is_hidden(char) for char in text)
    assert json.loads(text) == value or any(0xD800 <= ord(char) < 0xE000 for char in str(value))


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b1m", "\u202e", "\U000e0041", "\ufeff"])
def test_json_escapes_what_a_terminal_obeys(text: str) -> None:
    shown = format_json({text: text}, indent=2)
    assert text not in shown
    assert json.loads(shown) == {text: text}
