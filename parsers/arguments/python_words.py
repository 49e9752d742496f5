"""Words, keywords, strings and the beginnings of literals in Python calls."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from .json_repair import StringRun, escape_quotes
from .json_text import escape_json, is_literal

# Limit for the text from a comma on that decides whether a quote ends its string.
MAX_LOOK = 192
_SPACE = re.compile(r"[ \t\r\n]*")
_COMMA = re.compile(r",[ \t\r\n]*+(?:#[^\n]*\n[ \t\r\n,]*)*+")
# A word, or a number with white space after its sign.
WORD = re.compile(r"[+\-][ \t]+(?:[\d.][\w.+\-]*|\Z)|[\w.+\-$]+")
KEYWORD = re.compile(rf"([^\W\d]\w{{0,{MAX_LOOK}}})[ \t\r\n]*=(?!=)")
PARTIAL_KEYWORD = re.compile(r"[^\W\d]\w*[ \t\r\n]*=?\Z")
PREFIXES = frozenset({"", "r", "b", "u", "br", "rb"})
QUOTES = "\"'"
OPENERS = "{[("
VALUE_START = re.compile(r"[\w\"'{\[(.+\-]")
# After a string or word, white space is read together with what follows; more ends the value.
MAX_SPACES = 256
# Text of a string including escapes with the same meaning in JSON; and without escapes.
RUNS = {
    '"': StringRun(re.compile(r'(?:[^\\"\x00-\x1f]++|\\["\\bfnrt])++'), str),
    "'": StringRun(re.compile(r"(?:[^\\'\x00-\x1f]++|\\[\\bfnrt])++"), escape_quotes),
}
RAW_RUNS = {quote: StringRun(re.compile(rf"[^\\\r{quote}]+"), escape_json) for quote in "\"'"}
# The beginning of a string, or of its prefix at the end of the text.
STRING_START = re.compile(r"([rR][bB]?|[bB][rR]?|[uU])?(?:([\"'])|\Z)")


@dataclass(frozen=True)
class Followers:
    """The text that may follow an argument of a call.

    keywords: the names of the declared parameters; if empty, any name is a keyword.
    positional: more positional arguments may follow.
    """

    keywords: Collection[str]
    positional: bool

    def may_follow(
        self, look: str, *, spaced: bool, has_inner_quotes: bool, whole: bool
    ) -> bool | None:
        """Whether an argument may end before `look`; None if that needs more text.

        spaced: white space comes before it. has_inner_quotes: a quote of the string before it was
        taken for text. whole: no more text is needed.
        """
        comma, start = look[0] == ",", _skip_comma(look)
        lacks_parenthesis = look.rstrip() == "]"
        needs_more = not whole and PARTIAL_KEYWORD.match(look, start) is not None
        if lacks_parenthesis or needs_more or look[start : start + 1] in ("", "#"):
            return True if whole else None
        known, is_next = self._find_next(look, start)
        if known:
            return comma or spaced
        return comma and (look[start] == ")" or (is_next and not has_inner_quotes))

    def _find_next(self, look: str, start: int) -> tuple[bool, bool]:
        """Return whether a known keyword is at `start`, and whether any argument may be there."""
        keyword = KEYWORD.match(look, start)
        if keyword is None:
            return False, self.positional and VALUE_START.match(look, start) is not None
        return keyword[1] in self.keywords or not self.keywords, True


def begins_literal(text: str, position: int, *, final: bool) -> bool | None:
    """Whether a literal begins at `position`; None if that needs more text.

    A number or keyword counts only if the argument ends after it.
    """
    if position == len(text):
        return False if final else None
    if text[position] in QUOTES or text[position] in OPENERS:
        return True
    match = WORD.match(text, position)
    if match is None:
        return False
    word, end = match.group(), match.end()
    if end < len(text) and text[end] in QUOTES:
        return word.lower() in PREFIXES
    ends = _ends_word(text, match_space(text, end), final=final)
    return ends and is_literal("".join(word.split()))


def _ends_word(text: str, position: int, *, final: bool) -> bool | None:
    """Whether an argument ends before `position`; None if that needs more text."""
    if position == len(text):
        return False if final else None
    if text[position] in ",)":
        return True
    if not final and PARTIAL_KEYWORD.match(text, position) is not None:
        return None
    return KEYWORD.match(text, position) is not None  # the comma was omitted


def _skip_comma(look: str) -> int:
    """Return the position after a comma, with comments after it; that of one without its end."""
    match = _COMMA.match(look)
    return 0 if match is None else match.end()


def match_space(text: str, position: int) -> int:
    """Return the position after white space."""
    match = _SPACE.match(text, position)
    return match.end() if match is not None else position
