"""Finds the parts of an answer that redaction keeps: text that parsers look for.

These are the markers and keys of the model's formats, names that the request declares, JSON's
literals and escapes, and the request's stop strings; white space and punctuation are kept anyway.

Text from the request is searched directly, never compiled into a pattern: a pattern of 16,000
names blocks all threads of the process for seconds per answer.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator

from ..base.json_schema import HOLDERS, JSON_TYPES, walk
from ..base.json_types import JsonObject
from ..base.limits import MAX_SPELLED_NAMES
from ..parsers.base import ParserNames
from ..parsers.format import Format
from ..parsers.parser_lookup import reasoning_format, tool_format
from ..postprocess.messages import PostprocessParams

# Keywords with subschemas that a redacted schema keeps, because parsers read them.
KEPT_HOLDERS = {
    word: HOLDERS[word]
    for word in (
        "properties $defs definitions anyOf oneOf allOf prefixItems items "
        "additionalProperties not".split()
    )
}
LITERALS = ("true", "false", "null", "True", "False", "None")
GONE, KEPT, DIGIT = 0, 1, 2
# Categories of characters outside of ASCII that are kept: punctuation, spaces, signs of sums.
_PLAIN = frozenset("Pc Pd Ps Pe Pi Pf Po Zs Zl Zp Sm Sc".split())
# In JSON and in XML. The digits of the last kind are replaced.
_HEX = "hex"
# A word outside of a marker.
_SINGLE = "single"
_ESCAPES = rf"""\\u(?P<{_HEX}>[0-9a-fA-F]{{4}})|\\["'\\/bfnrt]|&(?:lt|gt|amp|quot|apos);"""
# A whole number in any notation.
_NO_FRACTION = r"(?<=\d)\.0+(?!\d)"
# An array element in XML.
_ITEM = r"(?<=[</])item(?=>)"
_EXPONENT = r"(?<=\d)[eE](?=[-+]?\d)"
# The parts of a format's pattern that are not words: names of groups, escapes, classes.
_SYNTAX = re.compile(r"\(\?P<\w+>|\\.|\[[^\]]*\]")
_RUN = re.compile(r"\w+")
_WORD = re.compile(r"[^\W\d_](?:\w*[^\W_])?")


class KeptText:
    """Finds the parts of a request's prompt and answer to keep.

    parsers: the model's parser names. names: those that the request declares.
    """

    def __init__(self, params: PostprocessParams, parsers: ParserNames) -> None:
        self._pattern = _build_pattern(parsers)
        self._stops = [stop for stop in params.stop if stop]
        names = list(dict.fromkeys(declared_names(params.parser.tools)))
        self.names = frozenset(names)
        spelled = (name for name in names if _RUN.fullmatch(name) is None)
        self._spelled = list(itertools.islice(spelled, MAX_SPELLED_NAMES))

    def mask(self, text: str) -> bytearray:
        """Return for each character `GONE`, `KEPT`, or `DIGIT` for a digit of an escape."""
        mask = bytearray(len(text))
        for start, end in self._find_own(text):
            mask[start:end] = bytes((KEPT,)) * (end - start)
        for match in self._pattern.finditer(text):
            start, end = match.span()
            if match.lastgroup == _SINGLE and not _is_whole(text, start, end):
                continue
            mask[start:end] = bytes((KEPT,)) * (end - start)
            if match.lastgroup == _HEX:
                start, end = match.span(_HEX)
                mask[start:end] = bytes((DIGIT,)) * (end - start)
        return mask

    def _find_own(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of the request's stop strings and, as whole words, its names."""
        for stop in self._stops:
            for start in find_all(text, stop):
                yield start, start + len(stop)
        for run in _RUN.finditer(text):
            if run.group() in self.names and _is_whole(text, *run.span()):
                yield run.span()
        for name in self._spelled:
            for start in find_all(text, name):
                if _is_whole(text, start, start + len(name)):
                    yield start, start + len(name)


def find_all(text: str, part: str) -> Iterator[int]:
    """Yield the positions of `part` in `text`, from left to right without overlaps."""
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + len(part))


@functools.lru_cache(maxsize=4096)
def is_replaced(character: str) -> bool:
    """Whether a character is part of a word: only punctuation and white space are not.

    Words can also be written in symbols (braille, letters in circles or squares, flags), in marks
    and in invisible characters.
    """
    if character.isascii():
        return character.isalnum()
    return unicodedata.category(character) not in _PLAIN


def _is_whole(text: str, start: int, end: int) -> bool:
    return not any(map(is_replaced, text[start - 1 : start] if start else "")) and not any(
        map(is_replaced, text[end : end + 1])
    )


@functools.cache
def _build_pattern(parsers: ParserNames) -> re.Pattern[str]:
    """Return a pattern of what these parsers look for in any request."""
    markers, words, keys = _format_texts(parsers)
    quoted = "|".join(_longest_first({*keys, *JSON_TYPES}))
    parts = [
        _ESCAPES,
        *_longest_first(markers),
        rf"(?<!\w)(?P<{_SINGLE}>{'|'.join(_longest_first({*words, *LITERALS}))})(?!\w)",
        _EXPONENT,
        _NO_FRACTION,
        _ITEM,
        rf"""(?<=["'])(?:{quoted})(?=["'])""",
    ]
    return re.compile("|".join(parts))


def declared_names(tools: Iterable[JsonObject]) -> Iterator[str]:
    """Yield the names of functions, and then of their parameters at any depth."""
    functions = [function for tool in tools if isinstance(function := tool.get("function"), dict)]
    for function in functions:
        if isinstance(name := function.get("name"), str) and name:
            yield name
    for function in functions:
        for _, schema in walk(function.get("parameters"), KEPT_HOLDERS):
            properties = schema.get("properties") if isinstance(schema, dict) else None
            yield from (name for name in properties if name) if isinstance(properties, dict) else ()


def _format_texts(parsers: ParserNames) -> tuple[set[str], set[str], set[str]]:
    """Return the markers, the words in patterns, and the keys of these parsers' formats."""
    named = ((tool_format, parsers.tool_call), (reasoning_format, parsers.reasoning))
    formats = [format_ for find, name in named if name and (format_ := find(name))]
    markers = {
        marker
        for format_ in formats
        for by_marker in format_.states.values()
        for marker in by_marker
        if any(map(is_replaced, marker))
    }
    words = set(itertools.chain.from_iterable(map(_pattern_words, formats)))
    keys = {
        key
        for format_ in formats
        for group in (format_.keys.name, format_.keys.arguments, format_.keys.id)
        for key in (*group, *format_.keys.inside, *format_.wrappers)
    }
    return markers, words, keys


def _pattern_words(format_: Format) -> Iterator[str]:
    patterns = [pattern.pattern for pattern, _ in format_.headers]
    patterns += [pattern.pattern for pattern in (format_.header, format_.function) if pattern]
    texts = [_SYNTAX.sub(" ", pattern) for pattern in patterns]
    for text in (*texts, format_.separator, format_.tag_prefix, format_.prefix):
        yield from _WORD.findall(text)


def _longest_first(texts: Collection[str]) -> list[str]:
    return [re.escape(text) for text in sorted({*texts}, key=lambda text: (-len(text), text))]
