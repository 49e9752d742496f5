"""Checks clients' schemas, and rewrites tools' schemas in the terms that engines support.

A single walk with a table of keywords has a cost linear in the schema, whatever references or
expressions it has: references are not resolved, and expressions are not matched. For why this is
not the library jsonschema see docs/decisions/0033-tried-and-rejected.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from re import _parser  # type: ignore[attr-defined]  # typeshed leaves it out
from typing import NamedTuple, TypeGuard

from ..base.json_schema import (
    ANY,
    HOLDERS,
    HOLDERS_BEFORE_2020,
    JSON_TYPES,
    Holds,
    Path,
    replace_nested,
    to_json_type,
    walk,
)
from ..base.json_types import JsonObject, is_deeper
from ..base.limits import MAX_GROUPS, MAX_PATTERN_CHARACTERS, MAX_SCHEMA_DEPTH, MAX_SUBSCHEMAS
from ..base.ranges import INT_32

# Deeper schemas are not rewritten; no validator reads them.
MAX_DEPTH = 128


def standardize(schema: JsonObject, *, newest: bool = True, depth: int = 0) -> JsonObject:
    """Rewrite `schema` in JSON Schema's terms; return the same object if it needs no change.

    Type names of other languages become JSON types. Names for any type, keywords that are null,
    and `required: true` inside a property are dropped.

    newest: also rewrite older drafts as draft 2020-12: arrays as `items` become `prefixItems`,
        `exclusiveMinimum: true` replaces the minimum, and the object names its required properties.

    The cost is linear in the schema, which is not modified.
    """
    if depth >= MAX_DEPTH:
        return schema
    changes: JsonObject = {}
    for word, value in schema.items():
        if value is None:
            if word in _NEVER_NULL:
                changes[word] = None
            continue
        standard = _rewrite(word, value, newest, depth + 1)
        if standard is not value:
            changes[word] = standard
    if newest and not schema.keys().isdisjoint(_OLDER_WORDS):
        changes |= _modernize(schema, changes)
    if not changes:
        return schema
    merged = schema | changes
    return {
        word: value for word, value in merged.items() if value is not None or word not in changes
    }


def _modernize(schema: JsonObject, changes: JsonObject) -> JsonObject:
    """Return the keywords that replace those of older drafts; None removes a keyword."""
    modern: JsonObject = {}
    items = changes.get("items", schema.get("items"))
    if isinstance(items, list):
        rest = changes.get("additionalItems", schema.get("additionalItems"))
        modern |= {"prefixItems": items, "items": rest, "additionalItems": None}
    for word in ("Minimum", "Maximum"):
        exclusive = schema.get(f"exclusive{word}")
        if isinstance(exclusive, bool):
            limit = schema.get(word.lower())
            modern[f"exclusive{word}"] = limit if exclusive else None
            modern[word.lower()] = None if exclusive else limit
    modern |= _name_required(schema)
    if modern and "$schema" in schema:
        modern["$schema"] = None  # it may name a draft without these keywords
    return modern


def _name_required(schema: JsonObject) -> JsonObject:
    """Return `required` with the properties that are marked as required; empty without any."""
    properties, named = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not (named is None or isinstance(named, list)):
        return {}
    required = [
        key
        for key, member in properties.items()
        if isinstance(member, dict) and member.get("required") is True
    ]
    return {"required": list(dict.fromkeys([*(named or ()), *required]))} if required else {}


def _rewrite(word: str, value: object, newest: bool, depth: int) -> object:
    """Return a keyword's value in its standard form; the same object if it has that form."""
    if word == "type":
        return _rewrite_type(value)
    if word == "required":
        return None if isinstance(value, bool) else value
    if word in _COUNTS and isinstance(value, int):
        return min(value, INT_32)  # xgrammar refuses larger ones
    if word not in _HOLDERS:
        return value
    return replace_nested(
        value,
        _HOLDERS[word],
        lambda part: (
            standardize(part, newest=newest, depth=depth) if isinstance(part, dict) else part
        ),
    )


def _rewrite_type(value: object) -> object:
    names = value if isinstance(value, list) else [value]
    types = [to_json_type(name) or name if isinstance(name, str) else name for name in names]
    if ANY in types or "" in types:
        return None
    # Compared by name or identity, because other values may not be hashable.
    unique = list({name if isinstance(name, str) else id(name): name for name in types}.values())
    if unique == names:
        return value
    return unique if isinstance(value, list) else unique[0]


# Engines compile the schemas of these keywords; they ignore the others that hold schemas.
_HOLDERS = {
    word: holds
    for word, holds in HOLDERS_BEFORE_2020.items()
    if word not in ("dependencies", "contentSchema")
}
_COUNTS = frozenset(
    "minLength maxLength minItems maxItems minProperties maxProperties minContains "
    "maxContains".split()
)
# Keywords that are dropped if null.
_NEVER_NULL = frozenset(_HOLDERS).union(
    "type required enum pattern format title description $schema minimum maximum "
    "exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems "
    "uniqueItems minProperties maxProperties".split()
)
# Keywords with another meaning in older drafts.
_OLDER_WORDS = frozenset({"items", "exclusiveMinimum", "exclusiveMaximum", "properties"})


# Keywords of older drafts, by those of the standard form with `items` as a list.
_OLDER_STEPS: Mapping[str | int, str] = {"prefixItems": "items", "items": "additionalItems"}


class SchemaFault(NamedTuple):
    """A wrong value in a schema, its path, and the values that are allowed there."""

    path: Path
    value: object
    allowed: str


def find_fault(schema: object) -> SchemaFault | None:
    """Return the first fault of a schema; None for a correct one.

    `$schema` chooses the draft; the newest if it is missing or unknown.
    """
    if is_deeper(schema, MAX_SCHEMA_DEPTH):
        return SchemaFault((), schema, f"at most {MAX_SCHEMA_DEPTH} levels deep")
    draft = _find_draft(schema)
    for count, (path, part) in enumerate(walk(schema, draft.holders), 1):
        if count > MAX_SUBSCHEMAS:
            return SchemaFault((), schema, f"at most {MAX_SUBSCHEMAS:,} schemas in one")
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            return SchemaFault(path, part, "a schema, which is an object or true or false")
        for word, value in part.items():
            rule = draft.rules.get(word)
            if rule is not None and not rule.accepts(value):
                return SchemaFault((*path, word), value, rule.allowed)
    return None


def find_keyword(schema: object, words: Container[str]) -> str | None:
    """Return the first of some keywords that a valid schema uses; None if it uses none."""
    for _, part in walk(schema, _find_draft(schema).holders):
        for word in part if isinstance(part, dict) else ():
            if word in words:
                return str(word)
    return None


def find_tool_fault(schema: JsonObject) -> SchemaFault | None:
    """Return the first fault of a tool's schema; None for a correct one.

    Type names of other languages are correct (see `standard_schema`), and so are the keywords of
    the draft that `$schema` names.
    """
    newest = _find_draft(schema) is _NEWEST
    fault = find_fault(standardize(schema, newest=newest))
    if fault is not None and newest:
        return fault._replace(path=_find_written_path(schema, fault.path))
    return fault


def _find_written_path(written: object, path: Path) -> Path:
    """Convert a path in the standard form to the path in the tool's schema."""
    found: list[str | int] = []
    for step in path:
        if isinstance(written, dict):
            older = _OLDER_STEPS if isinstance(written.get("items"), list) else {}
            found.append(older.get(step, step))
            written = written.get(found[-1])
        else:
            found.append(step)
            written = written[step] if isinstance(written, list) and isinstance(step, int) else None
    return tuple(found)


def find_pattern_fault(pattern: object) -> str | None:
    """Return the expectation that a regular expression violates; None for a valid one."""
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


class _Rule(NamedTuple):
    """accepts: whether a keyword may have a value, ignoring the schemas in it."""

    accepts: Callable[[object], bool]
    allowed: str


class _Draft(NamedTuple):
    """The keywords of a draft, with the rules of their values and how they hold schemas."""

    rules: Mapping[str, _Rule]
    holders: Mapping[str, Holds]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return _is_number(value) and value >= 0 and value == value // 1


def _is_positive(value: object) -> bool:
    return _is_number(value) and value > 0


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
    # Parsing takes microseconds a character; compiling takes milliseconds for each range of wide
    # characters, and finds only one fault more.
    try:
        return not _has_uneven_look_behind(_parser.parse(value))
    except (re.error, OverflowError):
        return False


def _has_uneven_look_behind(pattern: object) -> bool:
    """Whether a parsed expression asserts earlier text of no fixed length: invalid in `re`."""
    waiting = [pattern]
    while waiting:
        match node := waiting.pop():
            case (operator, (-1, behind)) if str(operator).startswith("ASSERT"):
                least, most = _parser.SubPattern.getwidth(behind)
                if least != most:
                    return True
        if isinstance(node, tuple | list | _parser.SubPattern):
            waiting.extend(node)
    return False


def _are_patterns(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_pattern, value))


def _is_instance(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


_PATTERN = (
    f"a regular expression of at most {MAX_PATTERN_CHARACTERS:,} characters, with at most "
    f"{MAX_GROUPS} groups inside each other"
)
_COUNT = _Rule(_is_count, "a whole number, 0 or more")
_NUMBER = _Rule(_is_number, "a number")
_STRING = _Rule(_is_instance(str), "a string")
_BOOL = _Rule(_is_instance(bool), "true or false")
_HOLDER_RULES = {
    Holds.LIST: _Rule(
        lambda value: isinstance(value, list) and bool(value), "a list of schemas, one at least"
    ),
    Holds.MAP: _Rule(_is_instance(dict), "an object whose values are schemas"),
    Holds.MAP_OR_NAMES: _Rule(_are_dependencies, "an object of schemas or lists of strings"),
}
KEYWORDS: Mapping[str, _Rule] = {
    **{word: _HOLDER_RULES[holds] for word, holds in HOLDERS.items() if holds in _HOLDER_RULES},
    "patternProperties": _Rule(_are_patterns, f"an object whose keys are each {_PATTERN}"),
    "type": _Rule(_is_type, f"one of {', '.join(sorted(JSON_TYPES))}, or a list of these"),
    "enum": _Rule(_is_instance(list), "a list"),
    "required": _Rule(_are_strings, "a list of different strings"),
    "dependentRequired": _Rule(_are_lists_of_strings, "an object of lists of strings"),
    "multipleOf": _Rule(_is_positive, "a number above 0"),
    "pattern": _Rule(_is_pattern, _PATTERN),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _BOOL),
    **dict.fromkeys(_COUNTS, _COUNT),
    **dict.fromkeys(
        (
            "$schema $id $ref $anchor $dynamicRef $dynamicAnchor $comment title "
            "description format contentEncoding contentMediaType".split()
        ),
        _STRING,
    ),
}
_NEWEST = _Draft(KEYWORDS, HOLDERS)
_BEFORE_2020 = _Draft(KEYWORDS, HOLDERS_BEFORE_2020)
_DRAFT_4 = _Draft(
    {**KEYWORDS, "exclusiveMinimum": _BOOL, "exclusiveMaximum": _BOOL}, HOLDERS_BEFORE_2020
)
_DRAFTS = {
    "draft-04": _DRAFT_4,
    **dict.fromkeys(("draft-06", "draft-07", "2019-09"), _BEFORE_2020),
}
_DRAFT = re.compile(r"draft-\d\d|2019-09")


def _find_draft(schema: object) -> _Draft:
    """Return the draft that the schema names, or the newest."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    match = _DRAFT.search(named) if isinstance(named, str) else None
    return _DRAFTS.get(match[0], _NEWEST) if match else _NEWEST
