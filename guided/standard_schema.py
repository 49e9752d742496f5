"""Tools' schemas as JSON Schema has them, whatever language or draft they were written for.

Engines compile schemas to grammars, and know JSON Schema's own words only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..base.json_types import JsonObject
from ..parsers.type_names import ANY, to_json_type

# Nothing that stands deeper is rewritten; no validator reads so deep a schema.
MAX_DEPTH = 128


def standardize(schema: JsonObject, *, newest: bool = True, depth: int = 0) -> JsonObject:
    """Return `schema` in the words of JSON Schema; the same object if nothing has to change.

    Type names of other languages become JSON types; a name for any type, and keywords that are
    null, go; `required: true` inside a property goes.

    newest: rewrite what draft 2020-12 says in another way than the drafts before it, too: arrays as
        `items` become `prefixItems`, `exclusiveMinimum: true` takes the place of the minimum, and
        the object names the properties that are required.

    Linear in the schema, which is not changed.
    """
    if depth >= MAX_DEPTH:
        return schema
    changes: JsonObject = {}
    for word, value in schema.items():
        if value is None:
            if word in _NEVER_NULL:
                changes[word] = None
        elif (read := _READERS.get(word)) is not None:
            standard = read(value, newest, depth + 1)
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
    """Return the keywords that draft 2020-12 has in place of older ones; None for none."""
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
    properties = schema.get("properties")
    if isinstance(properties, dict):
        required = [key for key, member in properties.items() if _says_required(member)]
        named = schema.get("required")
        if required and (named is None or isinstance(named, list)):
            modern["required"] = list(dict.fromkeys([*(named or ()), *required]))
    if modern and "$schema" in schema:
        modern["$schema"] = None  # it may name a draft that does not know these words
    return modern


def _says_required(schema: object) -> bool:
    return isinstance(schema, dict) and schema.get("required") is True


def _read_type(value: object, _newest: bool, _depth: int) -> object:
    names = value if isinstance(value, list) else [value]
    types = [to_json_type(name) or name if isinstance(name, str) else name for name in names]
    if ANY in types:
        return None
    # By the name itself, or by what is no name: a list of many would be compared with itself.
    unique = list({name if isinstance(name, str) else id(name): name for name in types}.values())
    if unique == names:
        return value
    return unique if isinstance(value, list) else unique[0]


def _read_required(value: object, _newest: bool, _depth: int) -> object:
    return None if isinstance(value, bool) else value


def _read_one(value: object, newest: bool, depth: int) -> object:
    return standardize(value, newest=newest, depth=depth) if isinstance(value, dict) else value


def _read_list(value: object, newest: bool, depth: int) -> object:
    if not isinstance(value, list):
        return value
    standard = [_read_one(part, newest, depth) for part in value]
    return standard if any(map(_differs, standard, value)) else value


def _read_map(value: object, newest: bool, depth: int) -> object:
    if not isinstance(value, dict):
        return value
    standard = {key: _read_one(part, newest, depth) for key, part in value.items()}
    return standard if any(map(_differs, standard.values(), value.values())) else value


def _read_items(value: object, newest: bool, depth: int) -> object:
    read = _read_list if isinstance(value, list) else _read_one
    return read(value, newest, depth)


def _differs(one: object, other: object) -> bool:
    return one is not other


_Reader = Callable[[object, bool, int], object]
_READERS: Mapping[str, _Reader] = {
    "type": _read_type,
    "required": _read_required,
    "items": _read_items,
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _read_list),
    **dict.fromkeys(
        ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), _read_map
    ),
    **dict.fromkeys(
        (
            *("additionalProperties", "additionalItems", "not", "if", "then", "else", "contains"),
            *("propertyNames", "unevaluatedItems", "unevaluatedProperties"),
        ),
        _read_one,
    ),
}
# Words of which null says nothing.
_NEVER_NULL = frozenset(
    {
        *_READERS,
        *("enum", "pattern", "format", "title", "description", "minLength", "maxLength"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "$schema"),
    }
)
# Words that older drafts use in another way.
_OLDER_WORDS = frozenset({"items", "exclusiveMinimum", "exclusiveMaximum", "properties"})
