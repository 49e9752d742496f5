"""Words, keywords, strings and the beginnings of literals in Python calls."""

from __future__ import annotations

import re

from .json_repair import StringRun, escape_quotes
from .json_text import escape_json, is_literal

# Limit for the text from a comma on that decides whether a quote ends its string.
MAX_LOOK = 192
_SPACE = re.compile(r"[ \t\r\n]*")
WORD = re.compile(r"[\w.+\-$]+")
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
    return ends and is_literal(word)


def _ends_word(text: str, position: int, *, final: bool) -> bool | None:
    """Whether an argument ends before `position`; None if that needs more text."""
    if position == len(text):
        return False if final else None
    if text[position] in ",)":
        return True
    if not final and PARTIAL_KEYWORD.match(text, position) is not None:
        return None
    return KEYWORD.match(text, position) is not None  # the comma was omitted


def match_space(text: str, position: int) -> int:
    """Return the position after white space."""
    match = _SPACE.match(text, position)
    return match.end() if match is not None else position
