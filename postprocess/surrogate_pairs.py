r"""Keeps text valid UTF-8: half a surrogate pair never leaves post-processing.

A model may write half a pair as an escape sequence (`\ud83d`), which parsers that decode JSON turn
into a lone surrogate. It cannot be encoded, so it would fail the answer or end a pool process.
Strict JSON readers also reject the escape sequence.

Two halves in succession become their character, even across deltas. A lone half becomes U+FFFD,
as a damaged character does in detokenization.
"""

from __future__ import annotations

import re

# The longest incomplete pair: an escape sequence, and the next without its last character.
MAX_HALF = 11

_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST_HALF = re.compile("[\ud800-\udbff]")
# The same as JSON escape sequences.
_HEX = "[0-9a-fA-F]"
_HIGH = rf"\\u[dD][89abAB]{_HEX}{{2}}"
_LOW = rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = re.compile(
    rf"(?P<kept>{_HIGH}{_LOW}|\\(?!u[dD][89a-fA-F]{_HEX}{{2}}).)|\\u.{{4}}", re.DOTALL
)
# Text before an escape sequence that is incomplete or that the other half may follow.
_COMPLETE = re.compile(
    r"(?:[^\\]++|\\[^u]"
    rf"|(?!{_HIGH})\\u{_HEX}{{4}}"
    rf"|{_HIGH}(?!(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?\Z)"
    rf"|\\u(?!{_HEX}{{0,3}}\Z|{_HEX}{{4}}))*+"
)


def mend_text(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_json(text: str) -> str:
    """Apply `mend_text` to JSON text, which may be incomplete, escapes included."""
    text = mend_text(text)
    if "\\u" not in text:
        return text
    return _ESCAPE.sub(lambda match: match["kept"] or r"\ufffd", text)


def mend_part(text: str, *, is_json: bool) -> tuple[str, str]:
    """Return the well-formed part of a longer text, and the end that must wait for more.

    The end has at most `MAX_HALF` characters; it may be half a character.
    """
    if text.isascii() and not (is_json and ("\\u" in text or text.endswith("\\"))):
        return text, ""
    end = _find_end(text, is_json=is_json)
    return (mend_json if is_json else mend_text)(text[:end]), text[end:]


def _find_end(text: str, *, is_json: bool) -> int:
    """Return where the part of `text` begins that must wait for more."""
    if is_json and "\\" in text:
        complete = _COMPLETE.match(text)
        if complete is not None and complete.end() < len(text):
            return complete.end()
    return len(text) - 1 if _FIRST_HALF.match(text, len(text) - 1) else len(text)
