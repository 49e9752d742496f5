"""JSON text of strings and of single words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from json.encoder import encode_basestring  # what json.dumps uses for ensure_ascii=False
from typing import TypeAlias

from ...base.limits import MAX_NUMBER

WriteJson: TypeAlias = Callable[[str], None]
"""Takes the next piece of JSON text."""

_KEYWORDS = {
    "True": "true",
    "False": "false",
    "None": "null",
    "true": "true",
    "false": "false",
    "null": "null",
}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_PARTIAL_NUMBER = re.compile(r"-?\d*(?:\.\d*)?(?:[eE][+-]?\d*)?")


def escape_json(text: str) -> str:
    """Escape `text` for the inside of a JSON string."""
    return encode_basestring(text)[1:-1]


def word_to_json(word: str) -> str:
    """Return the JSON of a number or keyword of JSON or Python; any other word becomes a string."""
    if word in _KEYWORDS:
        return _KEYWORDS[word]
    if _NUMBER.fullmatch(word):
        return word
    for number in (lambda: int(word, 0), lambda: int(word), lambda: float(word)):
        try:
            value = number()
        except ValueError:
            continue
        # JSON has neither infinity nor NaN.
        return repr(value) if math.isfinite(value) else f'"{word}"'
    return f'"{escape_json(word)}"'


def may_be_number(word: str) -> bool:
    """Whether `word` is, or begins, a number that is not too long to be held back."""
    return len(word) <= MAX_NUMBER and _PARTIAL_NUMBER.fullmatch(word) is not None


def is_literal(word: str) -> bool:
    """Whether `word` is a number or keyword of JSON or Python that JSON can express."""
    return word_to_json(word)[0] != '"'
