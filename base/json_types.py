"""JSON: a name for objects, how deep it may be nested, JSON in strings, and JSON in lines.

Decoders call themselves for each level, so Python's recursion limit would decide what is JSON: some
900 levels with Python 3.11, 10,000 with 3.13. `check_nesting` decides it before a decoder runs.
"""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from .limits import MAX_DECODED_NESTING, MAX_NUMBER

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object as `json` and msgspec decode it: an OpenAI message, a tool, a JSON schema."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
# Ends of a line for Python's `splitlines`, besides those that JSON must escape; as UTF-8.
_LINE_ENDS = {char.encode(): rf"\u{ord(char):04x}".encode() for char in "\x85\u2028\u2029"}
_LINE_END = re.compile(b"|".join(_LINE_ENDS))
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = [1 if char in b"[{" else -1 for char in range(256)]

Text = TypeVar("Text", bound=str | bytes)


class NestingError(msgspec.DecodeError, ValueError):
    """JSON is nested too deeply. A subclass of what `json` and msgspec raise for other text."""


class Nesting(NamedTuple):
    """Brackets of a JSON text that are open: the most at once, and at its end."""

    deepest: int
    open: int


def measure_nesting(text: str | bytes) -> Nesting:
    """Count the brackets outside of strings; linear in the text, which need not be JSON."""
    encoded = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    brackets = _STRING.sub(b"", encoded).translate(None, _NO_BRACKETS)
    opened = sum(map(brackets.count, b"[{"))
    deepest = max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)
    return Nesting(deepest, 2 * opened - len(brackets))


def check_nesting(text: Text, levels: int = MAX_DECODED_NESTING) -> Text:
    """Return `text`, for a decoder. Raises `NestingError` for more than `levels` levels."""
    marks: tuple[Any, Any] = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    # Two counts are much cheaper than a look at each bracket.
    may_be_deep = len(text) > levels and sum(map(text.count, marks)) > levels
    if may_be_deep and measure_nesting(text).deepest > levels:
        raise NestingError(f"it is nested more than {levels} levels deep")
    return text


def is_deeper(value: object, levels: int = MAX_DECODED_NESTING) -> bool:
    """Whether JSON is nested more than `levels` deep."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [
            part
            for parent in level
            for part in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(part, dict | list)
        ]
        if not level:
            return False
    return bool(level)


def encode_line(value: object) -> bytes:
    """Encode `value` as JSON in one line for every reader, without the break at its end."""
    return _LINE_END.sub(lambda found: _LINE_ENDS[found.group()], msgspec.json.encode(value))


def decode_json(text: str, levels: int = MAX_DECODED_NESTING, *, is_finite: bool = False) -> object:
    """Decode JSON in a string: of a model's output, or of a client. Raises ValueError.

    msgspec refuses some of what is well-formed: 1e999, long integers, and the escape of half a pair
    of surrogates. Here, a number too large for a float, or for Python's `int`, is infinite.

    is_finite: such a number is refused.
    """
    value: object = json.loads(
        check_nesting(text, levels),
        parse_float=read_finite if is_finite else float,
        parse_int=int if is_finite else _read_integer,
        parse_constant=_refuse,
    )
    return value


def read_finite(text: str) -> float:
    """Return a number. Raises ValueError for one too large for a float."""
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _read_integer(text: str) -> float:
    return int(text) if len(text) <= MAX_NUMBER else float(text)


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON, or beyond a float")
