"""Determines the JSON value of a parameter's text from the declared schema.

Many formats write a parameter's value as plain text: strings unquoted, anything else as JSON or as
Python's `str`. `42` is then a number or a string, and only the schema can tell. One rule applies to
all formats. The value is the first of these readings that the schema accepts:

1. the text as JSON, except as a JSON string, whose quotes are part of the text;
2. the text as a Python literal: `None`, `True`, `{'a': 1}`;
3. the text as a string;
4. a likely intention: the string without surrounding white space or quotes, `TRUE`, `007`, `+5`,
   1 for true. What is not whole is not completed.

So for a union of a string with another type, the other type wins if the text is one of its values
(as in vllm 0.31 tool_parsers/utils.py), while "007" and "[INFO] up" remain strings. If the schema
accepts no reading, the first one of a declared type counts, else the very first.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from ...base.json_types import decode_json
from ...base.limits import MAX_WORD
from ..events import Malformation
from ..schema import ValueSchema, json_type
from ..schema_validation import accepts
from .incremental_grammar import Status
from .json_repair import JsonRepairer
from .json_text import escape_json

SPACE = " \t\r\n"
_PYTHON_WORDS: dict[str, bool | None] = {"None": None, "True": True, "False": False}
_LOOSE_WORDS: dict[str, bool | None] = {"": None, "null": None, "none": None} | {
    "true": True,
    "false": False,
    "1": True,
    "0": False,
}
_DECIMAL = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,9}))?")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Approximately: an object, list or tuple of Python's and JSON's literals.
_CONTAINER = re.compile(
    r"[\[({](?:[\s\[\](){},:]|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
    r"|-?\d[\d.eE+\-]*+|(?:True|False|None|true|false|null)\b)*+",
    re.DOTALL,
)


class _Reading(NamedTuple):
    """One reading of a text. json: its JSON text. exact: a float's value is not rounded."""

    value: object
    json: str
    exact: bool = True


def text_to_json(text: str, schema: ValueSchema, *, quoted: bool = False) -> str:
    """Return the JSON of the value that `text` represents under `schema`.

    quoted: the format writes strings that look like JSON as JSON strings, so that the quotes
        are not part of the text.
    Evaluates nothing; the cost is linear in the text.
    """
    kinds = schema.kinds
    readings = [
        reading
        for reading in _read(text, kinds, quoted=quoted)
        if reading.exact or "number" in kinds
    ]
    for reading in readings:
        if accepts(schema, reading.value):
            return reading.json
    for reading in readings:
        if json_type(reading.value) in kinds:
            return reading.json
    return readings[0].json


def retype(string: str, schema: ValueSchema) -> str:
    """Return the JSON of a string, as the type that `schema` asks for.

    Where the schema allows no string, it is read as its text, if that makes it valid: "42" for an
    integer is 42.
    """
    if not schema.declared or "string" in schema.kinds:
        return string
    typed = text_to_json(str(json.loads(string)), schema)
    return typed if json_type(json.loads(typed)) in schema.kinds else string


def _read(text: str, kinds: frozenset[str], *, quoted: bool) -> Iterator[_Reading]:
    """Yield the readings of `text`, the most literal one first."""
    word = text.strip(SPACE)
    string = _decode(word) if word[:1] == '"' else None
    if string is None:
        yield from _read_literal(word, kinds)
    elif quoted:
        yield string
    yield _Reading(text, _write_string(text))
    yield _Reading(word, _write_string(word))
    if string is not None:
        yield string
        word = str(string.value)
        if _SURROGATE.search(word):
            return  # half a character, which is not text
        yield from _read_literal(word, kinds)
    yield from _read_loosely(word)


def _read_literal(word: str, kinds: frozenset[str]) -> Iterator[_Reading]:
    """Yield the value of `word` as JSON, or else as a Python literal."""
    if len(word) <= MAX_WORD and (match := _DECIMAL.fullmatch(word)) is not None:
        yield from _read_number(match, kinds)
    elif (decoded := _decode(word)) is not None:
        yield decoded
    elif word in _PYTHON_WORDS:
        yield _write(_PYTHON_WORDS[word])
    elif _CONTAINER.fullmatch(word):
        yield from _read_container(word)


def _read_number(match: re.Match[str], kinds: frozenset[str]) -> Iterator[_Reading]:
    """Yield the number of a decimal text, unless it has leading zeros or is too large."""
    decoded = _decode(match.group())
    if decoded is None:
        return
    whole = _find_integer(match)
    if whole is None:
        yield decoded._replace(exact=not float(match.group()).is_integer())
    elif "number" in kinds or "integer" not in kinds:
        yield decoded
    else:
        yield _Reading(whole, str(whole))  # 42.0 for an integer is 42


def _find_integer(match: re.Match[str]) -> int | None:
    """Return the exact integer of a decimal text; None for a fraction or a huge number."""
    sign, digits, fraction, exponent = match.groups(default="")
    point = len(digits) + int(exponent or 0)
    digits += fraction
    if not digits.strip("0"):
        return 0
    if point > MAX_WORD or digits[max(point, 0) :].strip("0"):
        return None
    return int(sign + digits[:point].ljust(point, "0"))


def _read_loosely(word: str) -> Iterator[_Reading]:
    """Yield the values that `word` may have been intended as."""
    if len(word) <= MAX_WORD:
        yield from _read_loose_number(word)
    if (lower := word.lower()) in _LOOSE_WORDS:
        yield _write(_LOOSE_WORDS[lower])


def _read_loose_number(word: str) -> Iterator[_Reading]:
    """Yield the number of a text outside JSON's syntax: `007`, `+5`, `1_000`, `0x1f`, `٣`."""
    if not any(map(str.isdigit, word)):
        return
    for number in (int, lambda text: int(text, 0), float):
        try:
            value = number(word)
        except ValueError:
            continue
        if math.isfinite(value):
            yield _write(int(value) if value == int(value) else value)
        return


def _decode(text: str) -> _Reading | None:
    """Return the value of JSON text; None for other or deep text and numbers beyond a float."""
    try:
        value = decode_json(text, is_finite=True)
    except ValueError:
        return None
    return _Reading(value, text)


def _read_container(word: str) -> Iterator[_Reading]:
    """Yield the object or array of a text in Python's syntax; nothing may be missing or follow."""
    pieces: list[str] = []
    slips: list[Malformation] = []
    repairer = JsonRepairer(pieces.append, malformed=slips.append)
    is_whole = repairer.read(word, final=True) == len(word) and repairer.status is Status.DONE
    decoded = _decode("".join(pieces)) if is_whole and not slips else None
    if decoded is not None:
        yield decoded


def _write(value: float | bool | None) -> _Reading:
    return _Reading(value, json.dumps(value))


def _write_string(text: str) -> str:
    return f'"{escape_json(text)}"'
