r"""Escape sequences become what `ast.literal_eval` makes of them, or stay as they are written."""

from __future__ import annotations

import ast
import json
import warnings

import pytest
from backedge.base.limits import MAX_CHARACTER_NAME
from backedge.parsers.arguments.python_escapes import read_escape
from hypothesis import given
from hypothesis import strategies as st


def read(text: str, *, in_bytes: bool = False, final: bool = True) -> tuple[str, int]:
    written, end = read_escape(text, 0, in_bytes=in_bytes, final=final)
    return json.loads(f'"{written}"'), end


@given(text=st.text("\\01789abfnrtvxuUN{}' \nE", min_size=1, max_size=12), in_bytes=st.booleans())
def test_python_reads_the_same(text: str, in_bytes: bool) -> None:
    char, end = read("\\" + text, in_bytes=in_bytes)
    source = ("b" if in_bytes else "") + f"'''{chr(92)}{text[: end - 1]}'''"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = ast.literal_eval(source)
        except (SyntaxError, ValueError):
            assert char == ("\\" + text)[:end]  # no escape sequence of Python
            return
    assert char == (value.decode("latin-1") if in_bytes else value)


@pytest.mark.parametrize(
    ("text", "in_bytes", "waits"),
    [
        ("\\", False, True), ("\\x4", False, True), ("\\x41", False, False),
        ("\\u12", False, True), ("\\U0001F60", False, True), ("\\N", False, True),
        ("\\N{EURO", False, True), ("\\N{EURO SIGN}", False, False), ("\\1", False, True),
        ("\\12", False, True), ("\\123", False, False), ("\\19", False, False),
        ("\\\r", False, True), ("\\u12", True, False), ("\\N{", True, False), ("\\n", False, False),
        ("\\N{" + "A" * (MAX_CHARACTER_NAME + 1), False, False),
    ],
)  # fmt: skip
def test_what_may_go_on_waits(text: str, in_bytes: bool, waits: bool) -> None:
    assert (read(text, in_bytes=in_bytes, final=False)[1] == 0) is waits
    assert read(text, in_bytes=in_bytes)[1] > 0


def test_a_surrogate_stays_an_escape_sequence() -> None:
    assert read_escape("\\U0000d83d", 0, in_bytes=False, final=True)[0] == "\\ud83d"
