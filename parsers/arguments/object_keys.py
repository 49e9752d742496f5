"""Keys of JSON objects with a delimiter too many or too few, which a known key makes plain.

Nothing here changes JSON: a whole string that a colon follows is a key, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_WORD = r"\w[\w.$\-]{0,127}+"
_SPACE = r"[ \t\r\n]{0,16}+"
_LITERAL = r"-?\d[\d.eE+\-]{0,32}|true|false|null|True|False|None"
_PLAIN = re.compile(rf'"({_WORD})"{_SPACE}:')
_KEY = re.compile(rf"([\"']{{0,2}})({_WORD})([\"']{{0,2}}){_SPACE}(:?)")
# The beginning of a text that `_KEY` and what decides about it may match.
_PARTIAL = re.compile(
    rf"[\"']{{0,2}}(?:{_SPACE}"
    rf"|{_WORD}[\"']{{0,2}}{_SPACE}(?::[\"']?)?{_SPACE}[\w.+\-]{{0,33}}{_SPACE})\Z"
)
# After a colon: the key's own quote, since a value follows it.
_MOVED_QUOTE = re.compile(rf"[\"']{_SPACE}(?:[\"'{{\[]|(?:{_LITERAL}){_SPACE}[,}}\]])")
_VALUE = re.compile(rf"[\"'{{\[]|(?:{_LITERAL}){_SPACE}[,}}\]]")
# A string from its quote on, as far as it is looked at, and the mark after it.
_STRINGS = {
    quote: re.compile(
        rf"{quote}(?:[^{quote}\\]|\\.){{0,128}}+(?:({quote}){_SPACE}(.)?)?", re.DOTALL
    )
    for quote in "\"'"
}
WAITS = -1
_DOUBLED_QUOTE = re.compile(r"[\"'][ \t\r\n]*(?:([,}\])])|\Z)")


def read_key(
    text: str, position: int, is_known: Callable[[str], bool], *, final: bool, follows: str = ":"
) -> tuple[str, int, bool] | None:
    """Return the key at `position`, the position after its colon, and whether it is JSON.

    An empty key at `position` needs more text; None is any other text, also a key without quotes.
    One quote may be missing, doubled, or after the colon, and the colon may be missing.
    follows: the marks before which a string at `position` is whole.
    """
    match = _PLAIN.match(text, position)
    if match is not None:
        return (match[1], match.end(), True) if is_known(match[1]) else None
    if not final and _PARTIAL.match(text, position) is not None:
        return "", position, False
    match = _KEY.match(text, position)
    if match is None or not is_known(match[2]):
        return None
    if len(match[1]) == 1 and not match[3]:  # as JSON, the key does not end here
        is_whole = is_string(text, position, follows, final=final)
        if is_whole is not False:
            return None if is_whole else ("", position, False)
    end = _find_value(match, text)
    return None if end is None else (match[2], end, False)


def is_string(text: str, position: int, follows: str, *, final: bool) -> bool | None:
    """Whether a whole string begins with the quote at `position`, and a mark of `follows` is next.

    None needs more text. A string that is too long to be looked at is taken for whole.
    """
    match = _STRINGS[text[position]].match(text, position)
    closing, behind = match.groups() if match is not None else (None, None)
    if behind is not None:
        return behind in follows or behind.isspace()
    end = match.end() if match is not None else position
    if end < len(text) and not (closing is None and text[end:] == "\\"):
        return True
    return False if final else None


def _find_value(match: re.Match[str], text: str) -> int | None:
    """Return the position after a key's colon, or where the colon belongs; None if it is no key."""
    opening, _, closing, colon = match.groups()
    quotes, end = opening + closing, match.end()
    if len(set(quotes)) != 1:
        return None
    if not colon:
        is_whole = len(opening) == len(closing) == 1
        return end if is_whole and _VALUE.match(text, end) is not None else None
    return end + (not closing and _MOVED_QUOTE.match(text, end) is not None)


def lacks_brace(
    text: str, position: int, is_known: Callable[[str], bool], *, final: bool
) -> int | None:
    """Return where the members of an object begin whose brace is missing, or after its first quote.

    `WAITS` needs more text; None is any other text.
    """
    moved = text.startswith(('"{', "'{"), position)
    if not final and len(text) == position + 1 + moved:
        return WAITS
    start = position + 2 * moved
    found = read_key(text, start, is_known, final=final, follows=":,}")
    if found is None or (moved and text[start : start + 1] in "\"'"):
        return None
    return start if found[0] else WAITS


def skip_doubled_quote(text: str, position: int, *, final: bool) -> int | None:
    """Return the position after a quote at `position` that only an end of a member follows.

    `position` needs more text; None is any other text.
    """
    match = _DOUBLED_QUOTE.match(text, position)
    if match is None:
        return None
    return position + 1 if match[1] or final else position
