r"""Text that UTF-8 can encode: half a surrogate pair never leaves post-processing.

A model may write half of a pair as an escape sequence (`\ud83d`), and parsers that decode JSON
make a lone surrogate of it. No encoder takes that, so it would fail the answer, or end a process
of the pool. In an escape sequence strict JSON readers refuse it as well.

Two halves in succession become their character, also if they come in different deltas. A half
without its other half becomes U+FFFD, as a damaged character does in detokenization.
"""

from __future__ import annotations

import re

# An escape sequence of one half, and of the other all but its last character.
MAX_HALF = 11

_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST_HALF = re.compile("[\ud800-\udbff]")
# The same as escape sequences of JSON.
_HEX = "[0-9a-fA-F]"
_HIGH = rf"\\u[dD][89abAB]{_HEX}{{2}}"
_LOW = rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = re.compile(
    rf"(?P<kept>{_HIGH}{_LOW}|\\(?!u[dD][89a-fA-F]{_HEX}{{2}}).)|\\u.{{4}}", re.DOTALL
)
# Text up to an escape sequence that is not complete, or that the other half may follow.
_COMPLETE = re.compile(
    r"(?:[^\\]++|\\[^u]"
    rf"|(?!{_HIGH})\\u{_HEX}{{4}}"
    rf"|{_HIGH}(?!(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?\Z)"
    rf"|\\u(?!{_HEX}{{0,3}}\Z|{_HEX}{{4}}))*+"
)


def mend_text(text: str) -> str:
    """Return `text` with the halves of a character joined, and lone ones replaced by U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_json(text: str) -> str:
    """Return JSON text, which may be incomplete, mended as `mend_text`, in escapes as well."""
    text = mend_text(text)
    return _ESCAPE.sub(_mend_escape, text) if "\\u" in text else text


def _mend_escape(match: re.Match[str]) -> str:
    return match["kept"] or r"\ufffd"


def mend_part(text: str, *, is_json: bool) -> tuple[str, str]:
    """Return a part of a longer text, mended, and its end if that has to wait for the next part.

    The end is at most `MAX_HALF` characters, which may be half of a character.
    """
    if text.isascii() and not (is_json and ("\\u" in text or text.endswith("\\"))):
        return text, ""
    end = _find_end(text, is_json=is_json)
    return (mend_json if is_json else mend_text)(text[:end]), text[end:]


def _find_end(text: str, *, is_json: bool) -> int:
    """Return where the part of `text` begins that has to wait for more."""
    if is_json and "\\" in text:
        complete = _COMPLETE.match(text)
        if complete is not None and complete.end() < len(text):
            return complete.end()
    return len(text) - 1 if _FIRST_HALF.match(text, len(text) - 1) else len(text)
