"""Keys of JSON objects without a colon or their second quote, which a declared key makes plain.

Nothing here changes JSON: a whole string that a colon follows is a key, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_WORD = r"\w[\w.$\-]{0,127}+"
_SPACE = r"[ \t\r\n]{0,16}+"
_KEY = re.compile(rf'"({_WORD})("(?!"))?{_SPACE}(:?)')
# The beginning of a text that `_KEY` and what decides about it may match.
_PARTIAL = re.compile(rf'(?:"(?:{_WORD}"?{_SPACE}:?{_SPACE}[\w.+\-]{{0,33}}{_SPACE})?)?\Z')
_VALUE = re.compile(
    rf"[\"'{{\[]|(?:-?\d[\d.eE+\-]{{0,32}}|true|false|null|True|False|None){_SPACE}[,}}\]]"
)
# A string from its quote on, as far as it is looked at, and the mark after it.
_STRING = re.compile(rf'"(?:[^"\\]|\\.){{0,128}}+(?:("){_SPACE}(.)?)?', re.DOTALL)


def read_key(
    text: str, position: int, is_known: Callable[[str], bool], *, final: bool
) -> tuple[str, int, bool] | None:
    """Return the key at `position`, the position after its colon, and whether it is JSON.

    An empty key at `position` needs more text; None is any other text.
    """
    match = _KEY.match(text, position)
    if match is not None and match[2] and match[3]:
        return (match[1], match.end(), True) if is_known(match[1]) else None
    if not final and _PARTIAL.match(text, position) is not None:
        return "", position, False
    if match is None or not is_known(match[1]):
        return None
    is_other = _is_other(match, text, final=final)
    if is_other is None:
        return "", position, False
    return None if is_other else (match[1], match.end(), False)


def _is_other(match: re.Match[str], text: str, *, final: bool) -> bool | None:
    """Whether a match of `_KEY` without its colon or second quote is no key; None: more text."""
    if match[2]:
        return _VALUE.match(text, match.end()) is None
    return _is_key(text, match.start(), final=final) if match[3] else True


def _is_key(text: str, position: int, *, final: bool) -> bool | None:
    """Whether a whole string begins at `position`, and a colon follows; None needs more text.

    A string that is too long to be looked at is taken for whole.
    """
    match = _STRING.match(text, position)
    closing, behind = match.groups() if match is not None else (None, None)
    if behind is not None:
        return behind == ":" or behind.isspace()
    end = match.end() if match is not None else position
    if end < len(text) and not (closing is None and text[end:] == "\\"):
        return True
    return False if final else None
