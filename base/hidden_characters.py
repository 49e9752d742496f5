r"""Makes text of strangers visible: characters that a terminal or page would obey or hide.

Control characters (including ANSI escapes), zero-width characters, marks that change the
direction of text, white space other than the plain one, surrogates and unassigned characters are
written as `\n`, `\x1b` or `\u{202e}`. A backslash is not doubled, because people read this.
"""

from __future__ import annotations

import re
import unicodedata

# Invisible characters whose category does not show it: `Default_Ignorable_Code_Point` of Unicode,
# without the categories below.
_IGNORABLE = (
    "\u034f\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f\U000e0000-\U000e0fff"
)
_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_NAMES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# Nearly all text has none of these and returns after one search.
_SUSPECT = re.compile(rf"[^\x20-\x7e]|[{_IGNORABLE}]")
_IS_IGNORABLE = re.compile(f"[{_IGNORABLE}]")
# The form in which `surrogateescape` writes invalid bytes.
_FIRST_BYTE, _LAST_BYTE = 0xDC80, 0xDCFF
_ESCAPED = 0xDC00
# The last code written with two digits.
_LAST_SHORT = 0xFF


def is_hidden(char: str) -> bool:
    """Whether a reader would not see this character as such."""
    if char == " ":
        return False
    return unicodedata.category(char) in _CATEGORIES or _IS_IGNORABLE.match(char) is not None


def escape_hidden(text: str) -> str:
    """Return `text` with all invisible characters written out."""
    return _SUSPECT.sub(lambda match: _write(match.group()), text)


def show_line(text: object) -> str:
    """Return `text` as one line: runs of white space become a space, and nothing is hidden."""
    return escape_hidden(" ".join(str(text).split()))


def _write(char: str) -> str:
    if not is_hidden(char):
        return char
    code = ord(char)
    if _FIRST_BYTE <= code <= _LAST_BYTE:
        return f"\\x{code - _ESCAPED:02x}"
    if code <= _LAST_SHORT:
        return _NAMES.get(char, f"\\x{code:02x}")
    return f"\\u{{{code:x}}}"


def without_surrogates(text: str) -> str:
    r"""Escape lone surrogates as `\x80` or `\ud800`, for JSON that other programs read."""
    return "".join(_write(char) if unicodedata.category(char) == "Cs" else char for char in text)
