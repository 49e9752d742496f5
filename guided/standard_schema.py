"""Rewrites tools' schemas as JSON Schema, from other languages or drafts.

Engines compile schemas to grammars, and only support JSON Schema's own terms.
"""

from __future__ import annotations

from ..base.json_schema import ANY, HOLDERS_BEFORE_2020, replace_nested, to_json_type
from ..base.json_types import JsonObject

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
    required = [key for key, member in properties.items() if _says_required(member)]
    return {"required": list(dict.fromkeys([*(named or ()), *required]))} if required else {}


def _says_required(schema: object) -> bool:
    return isinstance(schema, dict) and schema.get("required") is True


def _rewrite(word: str, value: object, newest: bool, depth: int) -> object:
    """Return a keyword's value in its standard form; the same object if it has that form."""
    if word == "type":
        return _rewrite_type(value)
    if word == "required":
        return None if isinstance(value, bool) else value
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
    if ANY in types:
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
# Keywords that are dropped if null.
_NEVER_NULL = frozenset(_HOLDERS).union(
    "type required enum pattern format title description $schema minimum maximum "
    "exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems "
    "uniqueItems minProperties maxProperties".split()
)
# Keywords with another meaning in older drafts.
_OLDER_WORDS = frozenset({"items", "exclusiveMinimum", "exclusiveMaximum", "properties"})
