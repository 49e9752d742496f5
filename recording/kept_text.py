"""What stays of an answer in a redacted recording: text that parsers look for.

The markers and keys of the model's formats, the names that the request declares, JSON's literals
and escapes, and the request's stop strings. White space and punctuation stay anyway.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator

from ..parsers.base import ParserNames
from ..parsers.format import Format
from ..parsers.json_types import JsonObject
from ..parsers.parser_lookup import reasoning_format, tool_format
from ..postprocess.messages import PostprocessParams

# Subschemas of a schema, by how a keyword holds them.
NAMED_SCHEMAS = ("properties", "$defs", "definitions")
LISTED_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE_SCHEMAS = ("items", "additionalProperties", "not")

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
LITERALS = ("true", "false", "null", "True", "False", "None")
# In JSON and in XML; the digits of the last kind are replaced (`HEX`).
HEX = "hex"
_ESCAPES = rf"""\\u(?P<{HEX}>[0-9a-fA-F]{{4}})|\\["'\\/bfnrt]|&(?:lt|gt|amp|quot|apos);"""
# A number that is whole, however it is written.
_NO_FRACTION = r"(?<=\d)\.0+(?!\d)"
# An element of an array in XML.
_ITEM = r"(?<=[</])item(?=>)"
_EXPONENT = r"(?<=\d)[eE](?=[-+]?\d)"
# What a pattern of a format matches besides its own words: names of groups, escapes, classes.
_SYNTAX = re.compile(r"\(\?P<\w+>|\\.|\[[^\]]*\]")
_WORD = re.compile(r"[^\W\d_](?:\w*[^\W_])?")


def build_kept_pattern(params: PostprocessParams, parsers: ParserNames) -> re.Pattern[str]:
    """Return a pattern of what stays of the request's prompt and answer.

    A match of the group `HEX` is the digits of an escape, which stay four digits.
    """
    names = {*declared_names(params.parser.tools)}
    markers, words, keys = _format_texts(parsers)
    plain = [*markers, *params.stop]
    quoted = "|".join(_longest_first({*keys, *TYPES}))
    parts = [
        _ESCAPES,
        *_longest_first(plain),
        rf"(?<!\w)(?:{'|'.join(_longest_first({*names, *words, *LITERALS}))})(?!\w)",
        _EXPONENT,
        _NO_FRACTION,
        _ITEM,
        rf"""(?<=["'])(?:{quoted})(?=["'])""",
    ]
    return re.compile("|".join(parts))


def declared_names(tools: Iterable[JsonObject]) -> Iterator[str]:
    """Yield the names of functions, and of their parameters at any depth."""
    for tool in tools:
        function = tool.get("function")
        function = function if isinstance(function, dict) else {}
        if isinstance(name := function.get("name"), str) and name:
            yield name
        yield from _property_names(function.get("parameters"))


def _property_names(schema: object) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if isinstance(properties := schema.get("properties"), dict):
        yield from (name for name in properties if name)
    for subschema in subschemas(schema):
        yield from _property_names(subschema)


def subschemas(schema: JsonObject) -> Iterator[object]:
    """Yield the schemas directly in `schema`."""
    for keyword in NAMED_SCHEMAS:
        found = schema.get(keyword)
        yield from found.values() if isinstance(found, dict) else ()
    for keyword in LISTED_SCHEMAS:
        found = schema.get(keyword)
        yield from found if isinstance(found, list) else ()
    yield from (schema[keyword] for keyword in SINGLE_SCHEMAS if keyword in schema)


@functools.cache
def _format_texts(parsers: ParserNames) -> tuple[set[str], set[str], set[str]]:
    """Return the markers of the formats of these names, the words of their patterns, their keys."""
    found = (
        tool_format(parsers.tool_call) if parsers.tool_call else None,
        reasoning_format(parsers.reasoning) if parsers.reasoning else None,
    )
    formats = [format_ for format_ in found if format_ is not None]
    markers = {
        marker
        for format_ in formats
        for by_marker in format_.states.values()
        for marker in by_marker
        if _WORD.search(marker)
    }
    words = {word for format_ in formats for word in _pattern_words(format_)}
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
