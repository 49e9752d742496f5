"""Whether a client's schema is a JSON Schema, and of a size that engines can work with.

One pass over the schema by a table of keywords, so its cost is linear in the schema, whatever
references or expressions are in it: nothing is resolved, and no expression is matched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import NamedTuple

from ..base.json_types import JsonObject, is_deeper
from ..parsers.type_names import JSON_TYPES
from .standard_schema import standardize

# Of one schema: the schemas in it, and how deep it is nested as JSON.
MAX_SUBSCHEMAS = 16_384
MAX_DEPTH = 96
# Of a regular expression: its length, and its groups in groups. Engines translate it recursively.
MAX_PATTERN_CHARACTERS = 8192
MAX_GROUPS = 64


class SchemaFault(NamedTuple):
    """What is wrong with a schema.

    words: the way to the wrong value, keys and positions. allowed: the values it may have.
    """

    words: tuple[str | int, ...]
    value: object
    allowed: str


def find_fault(schema: object) -> SchemaFault | None:
    """Return the first fault of a schema; None for a correct one.

    `$schema` chooses the draft; without it, or with an unknown one, it is the newest.
    """
    if is_deeper(schema, MAX_DEPTH):
        return SchemaFault((), schema, f"at most {MAX_DEPTH} levels deep")
    keywords = _find_keywords(schema)
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), schema)]
    count = 0
    while waiting:
        words, part = waiting.pop()
        count += 1
        if count > MAX_SUBSCHEMAS:
            return SchemaFault((), schema, f"at most {MAX_SUBSCHEMAS:,} schemas in one")
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            return SchemaFault(words, part, "a schema, which is an object or true or false")
        for word, value in part.items():
            keyword = keywords.get(word)
            if keyword is None:
                continue
            if not keyword.accepts(value):
                return SchemaFault((*words, word), value, keyword.allowed)
            waiting += [((*words, word, *step), found) for step, found in keyword.parts(value)]
    return None


def find_keyword(schema: object, words: Container[str]) -> str | None:
    """Return the first of some keywords that a correct schema uses; None if it uses none."""
    keywords = _find_keywords(schema)
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        for word, value in part.items() if isinstance(part, dict) else ():
            if word in words:
                return str(word)
            if word in keywords:
                waiting += [found for _, found in keywords[word].parts(value)]
    return None


def find_tool_fault(schema: JsonObject) -> SchemaFault | None:
    """Return what is wrong with a tool's schema; None for a correct one.

    Type names of other languages are correct (see `standard_schema`), and so is what the draft
    says that `$schema` names.
    """
    newest = is_newest(schema)
    fault = find_fault(standardize(schema, newest=newest))
    if fault is not None and newest:
        return fault._replace(words=_find_written_words(schema, fault.words))
    return fault


def _find_written_words(written: object, words: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the way through a tool's schema that `words` is through its standard form."""
    found = []
    for word in words:
        step = _find_written_word(written, word)
        found.append(step)
        if isinstance(written, dict):
            written = written.get(step)
        else:
            written = written[step] if isinstance(written, list) and isinstance(step, int) else None
    return tuple(found)


def _find_written_word(written: object, word: str | int) -> str | int:
    """Return what stands in a tool's schema for a keyword of its standard form."""
    if not isinstance(written, dict) or not isinstance(written.get("items"), list):
        return word
    return {"prefixItems": "items", "items": "additionalItems"}.get(str(word), word)


def find_pattern_fault(pattern: object) -> str | None:
    """Return what a regular expression has to be instead; None for a correct one."""
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_CHARACTERS:
        return f"a regular expression of at most {MAX_PATTERN_CHARACTERS:,} characters"
    if _count_nested_groups(pattern) > MAX_GROUPS:
        return f"a regular expression with at most {MAX_GROUPS} groups inside each other"
    return None


def _count_nested_groups(pattern: str) -> int:
    depth = deepest = 0
    for bracket in re.findall(r"\\.|[()]", pattern, re.DOTALL):
        depth += (bracket == "(") - (bracket == ")")
        deepest = max(deepest, depth)
    return deepest


def is_newest(schema: object) -> bool:
    """Whether a schema is of the newest draft, as far as it says."""
    return _find_keywords(schema) is KEYWORDS


def _find_keywords(schema: object) -> Mapping[str, _Keyword]:
    """Return the keywords of the draft that the schema names, or of the newest."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    draft = _DRAFT.search(named) if isinstance(named, str) else None
    return _DRAFTS.get(draft[0], KEYWORDS) if draft else KEYWORDS


# What is wrong with a value, and what is to be checked in it: the way to a part, and the part.
_Parts = Callable[[object], Iterator[tuple[tuple[str | int, ...], object]]]


def _no_parts(_value: object) -> Iterator[tuple[tuple[str | int, ...], object]]:
    return iter(())


def _whole(value: object) -> Iterator[tuple[tuple[str | int, ...], object]]:
    yield (), value


def _items(value: object) -> Iterator[tuple[tuple[str | int, ...], object]]:
    if isinstance(value, list):
        for position in reversed(range(len(value))):
            yield (position,), value[position]


def _members(value: object) -> Iterator[tuple[tuple[str | int, ...], object]]:
    if isinstance(value, dict):
        for key in reversed(value):
            yield (key,), value[key]


def _whole_or_items(value: object) -> Iterator[tuple[tuple[str | int, ...], object]]:
    return _items(value) if isinstance(value, list) else _whole(value)


def _member_schemas(value: object) -> Iterator[tuple[tuple[str | int, ...], object]]:
    return (found for found in _members(value) if not isinstance(found[1], list))


class _Keyword(NamedTuple):
    """accepts: whether a value is of the right kind, but for the schemas in it."""

    accepts: Callable[[object], bool]
    allowed: str
    parts: _Parts = _no_parts


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_count(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and value >= 0
        and value == value // 1
    )


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_anything(_value: object) -> bool:
    return True


def _is_full_list(value: object) -> bool:
    return isinstance(value, list) and bool(value)


def _are_strings(value: object) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(item, str) for item in value)
        and len(set(value)) == len(value)
    )


def _are_lists_of_strings(value: object) -> bool:
    return isinstance(value, dict) and all(map(_are_strings, value.values()))


def _are_dependencies(value: object) -> bool:
    return isinstance(value, dict) and all(
        _are_strings(item) for item in value.values() if isinstance(item, list)
    )


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and _are_strings(names) and JSON_TYPES.issuperset(names)


def _is_pattern(value: object) -> bool:
    if not isinstance(value, str) or find_pattern_fault(value) is not None:
        return False
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _are_patterns(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_pattern, value))


_TYPES = ", ".join(sorted(JSON_TYPES))
_PATTERN = (
    f"a regular expression of at most {MAX_PATTERN_CHARACTERS:,} characters, with at most "
    f"{MAX_GROUPS} groups inside each other"
)
_SCHEMA = _Keyword(_is_anything, "a schema", _whole)
_COUNT = _Keyword(_is_count, "a whole number, 0 or more")
_NUMBER = _Keyword(_is_number, "a number")
_STRING = _Keyword(_is_string, "a string")
_BOOL = _Keyword(_is_bool, "true or false")
_SCHEMAS = _Keyword(_is_full_list, "a list of schemas, one at least", _items)
_MAP = _Keyword(_is_object, "an object whose values are schemas", _members)

KEYWORDS: Mapping[str, _Keyword] = {
    "type": _Keyword(_is_type, f"one of {_TYPES}, or a list of these"),
    "enum": _Keyword(_is_list, "a list"),
    "required": _Keyword(_are_strings, "a list of different strings"),
    "dependentRequired": _Keyword(_are_lists_of_strings, "an object of lists of strings"),
    "dependencies": _Keyword(
        _are_dependencies, "an object of schemas or lists of strings", _member_schemas
    ),
    "multipleOf": _Keyword(_is_positive, "a number above 0"),
    "pattern": _Keyword(_is_pattern, _PATTERN),
    "patternProperties": _Keyword(
        _are_patterns, f"an object whose keys are each {_PATTERN}", _members
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _SCHEMAS),
    **dict.fromkeys(("properties", "$defs", "definitions", "dependentSchemas"), _MAP),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _BOOL),
    **dict.fromkeys(
        (
            *("not", "if", "then", "else", "contains", "items", "propertyNames", "contentSchema"),
            *("additionalProperties", "unevaluatedItems", "unevaluatedProperties"),
        ),
        _SCHEMA,
    ),
    **dict.fromkeys(
        (
            *("minLength", "maxLength", "minItems", "maxItems"),
            *("minProperties", "maxProperties", "minContains", "maxContains"),
        ),
        _COUNT,
    ),
    **dict.fromkeys(
        (
            *("$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$comment"),
            *("title", "description", "format", "contentEncoding", "contentMediaType"),
        ),
        _STRING,
    ),
}
# What older drafts say in another way.
_BEFORE_2020 = {
    **KEYWORDS,
    "items": _Keyword(_is_anything, "a schema or a list of schemas", _whole_or_items),
    "additionalItems": _SCHEMA,
}
_DRAFT_4 = {**_BEFORE_2020, **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _BOOL)}
_DRAFTS: Mapping[str, Mapping[str, _Keyword]] = {
    "draft-04": _DRAFT_4,
    **dict.fromkeys(("draft-06", "draft-07", "2019-09"), _BEFORE_2020),
}
_DRAFT = re.compile(r"draft-\d\d|2019-09")
