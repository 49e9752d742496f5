r"""Escape sequences in Python's string literals, as `ast.literal_eval` reads them."""

from __future__ import annotations

import re
import unicodedata

from ...base.limits import MAX_CHARACTER_NAME
from .json_text import escape_json

_HEX = "[0-9a-fA-F]"
_NUMBER = rf"[0-7]{{1,3}}|x{_HEX}{{2}}"
_NEWLINE = r"\r?\n|\r"
_NAMED = rf"u{_HEX}{{4}}|U{_HEX}{{8}}|N\{{[\w \-]{{1,{MAX_CHARACTER_NAME}}}\}}"
# Complete escape sequences: in text, and in bytes, which have no named ones.
_TEXT = re.compile(rf"\\(?:{_NUMBER}|{_NEWLINE}|{_NAMED}|[^xuUN])", re.DOTALL)
_BYTES = re.compile(rf"\\(?:{_NUMBER}|{_NEWLINE}|[^x])", re.DOTALL)
# Sequences that the next character may complete or extend.
_PARTIAL_NUMBER = rf"[0-7]{{0,2}}|x{_HEX}?|\r"
_PARTIAL_NAMED = rf"u{_HEX}{{0,3}}|U{_HEX}{{0,7}}|N(?:\{{[\w \-]{{0,{MAX_CHARACTER_NAME}}})?"
_PARTIAL_TEXT = re.compile(rf"\\(?:{_PARTIAL_NUMBER}|{_PARTIAL_NAMED})\Z")
_PARTIAL_BYTES = re.compile(rf"\\(?:{_PARTIAL_NUMBER})\Z")
_SIMPLE = {
    **{char: char for char in "\\'\""},
    **dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)),
    **dict.fromkeys(("\n", "\r", "\r\n"), ""),
}
_LAST_BYTE = 0xFF
_LAST_CODE_POINT = 0x10FFFF


def read_escape(text: str, position: int, *, in_bytes: bool, final: bool) -> tuple[str, int]:
    r"""Return the JSON of the escape sequence at `position`, and its end.

    The end equals `position` if the sequence may continue, which `final` excludes.
    A backslash that begins no Python escape sequence is kept, and so is a sequence that names no
    character (`\N{no such name}`), although Python rejects such a literal.
    """
    if not final and (_PARTIAL_BYTES if in_bytes else _PARTIAL_TEXT).match(text, position):
        return "", position
    match = (_BYTES if in_bytes else _TEXT).match(text, position)
    if match is None:
        return "\\\\", position + 1
    escape = match.group()
    char = _find_character(escape[1:], in_bytes=in_bytes)
    if char is None:
        return escape_json(escape), match.end()
    # A surrogate remains an escape sequence, since UTF-8 cannot encode the character.
    is_surrogate = "\ud800" <= char <= "\udfff"
    return f"\\u{ord(char):04x}" if is_surrogate else escape_json(char), match.end()


def _find_character(escape: str, *, in_bytes: bool) -> str | None:
    """Return the character of an escape sequence without its backslash; None if unknown."""
    if escape in _SIMPLE:
        return _SIMPLE[escape]
    if escape[0] in "01234567":
        number = int(escape, 8)
        return chr(number & _LAST_BYTE if in_bytes else number)
    if len(escape) == 1:
        return None
    if escape[0] == "N":
        try:
            char = unicodedata.lookup(escape[2:-1])
        except KeyError:
            return None
        return char if len(char) == 1 else None  # a named sequence, which literals do not support
    number = int(escape[1:], 16)
    return chr(number) if number <= _LAST_CODE_POINT else None
