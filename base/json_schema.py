"""JSON Schema's vocabulary: the names of types, the keywords that hold schemas, and one walk.

Schemas generated from Python, Java or a database contain `dict`, `HashMap` or `varchar` where JSON
Schema has `object` or `string`. vLLM accepts such schemas unchanged; SGLang rewrites the names that
it knows.
Sources: the names in the Berkeley Function Calling Leaderboard's tools; the tables of aliases in
vllm 0.31 tool_parsers/utils.py and sglang 0.5.21 function_call/utils.py.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""The keys and positions that lead from a schema to a part of it."""

JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
# Stands for a value of any type.
ANY = "any"

_NAMES = {
    "string": "str text char character varchar nvarchar enum uuid date datetime time timestamp "
    "binary blob bytea bytes varbinary charsequence",
    "integer": "int uint long ulong short ushort byte sbyte bigint biginteger smallint tinyint "
    "unsigned",
    "number": "num float double decimal bigdecimal real numeric complex",
    "boolean": "bool",
    "null": "none nil nonetype void undefined",
    "object": "dict dictionary map mapping hashmap hashtable treemap linkedhashmap record struct "
    "json jsonobject",
    "array": "arr list arraylist linkedlist tuple set frozenset hashset sequence vector queue "
    "stack deque iterable collection jsonarray",
    ANY: "anything object? mixed unknown optional union literal",
}
_JSON_NAMES = {name: name for name in (*JSON_TYPES, ANY)} | {
    alias: name for name, aliases in _NAMES.items() for alias in aliases.split()
}
# Names with additions: `int32`, `varchar(255)`, `List[str]`, `java.util.HashMap`.
_NAME = re.compile(r"(?:[a-z_]\w*\.)*(?P<name>[a-z]+\??)")


def to_json_type(name: str) -> str | None:
    """Return the JSON type for a type's name, or `ANY`; None for an unknown name."""
    if name in JSON_TYPES:
        return name
    lower = name.strip().lower()
    if lower.endswith("[]"):
        return "array"
    match = _NAME.match(lower)
    if match is None or lower[match.end() : match.end() + 1] in ("_", "-", "."):
        return None
    return _JSON_NAMES.get(match["name"])


def split_pointer(pointer: str) -> list[str]:
    """Return the keys and positions of a JSON pointer (RFC 6901), without the part before them."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def join_pointer(parts: Sequence[str]) -> str:
    """Return a JSON pointer of the part before its keys and positions, and these."""
    return "/".join([parts[0], *(part.replace("~", "~0").replace("/", "~1") for part in parts[1:])])


class Holds(enum.Enum):
    """The form in which a keyword holds schemas."""

    ONE = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()
    # Before draft 2020-12: one schema for all items, or a list of schemas by position.
    ONE_OR_LIST = enum.auto()
    # A map of schemas, and of lists of property names.
    MAP_OR_NAMES = enum.auto()


# The keywords of draft 2020-12 that hold schemas, and those that it still allows.
HOLDERS: Mapping[str, Holds] = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), Holds.LIST),
    **dict.fromkeys(
        ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), Holds.MAP
    ),
    "dependencies": Holds.MAP_OR_NAMES,
    **dict.fromkeys(
        (
            "not if then else contains items propertyNames contentSchema "
            "additionalProperties unevaluatedItems unevaluatedProperties".split()
        ),
        Holds.ONE,
    ),
}
# The same for older drafts.
HOLDERS_BEFORE_2020 = {**HOLDERS, "items": Holds.ONE_OR_LIST, "additionalItems": Holds.ONE}


def walk(schema: object, holders: Mapping[str, Holds] = HOLDERS) -> Iterator[tuple[Path, object]]:
    """Yield the schema and all nested schemas with their paths, each before those in it.

    holders: the keywords that are followed. References are not, so the walk ends, and its cost is
        linear in the schema. A nested schema of a wrong type is yielded as it is.
    """
    waiting: list[tuple[Path, object]] = [((), schema)]
    while waiting:
        path, part = waiting.pop()
        yield path, part
        for word, value in part.items() if isinstance(part, dict) else ():
            if word in holders:
                nested = find_nested(value, holders[word])
                waiting += [((*path, word, *step), nested[step]) for step in reversed(nested)]


def find_nested(value: object, holds: Holds) -> dict[Path, object]:
    """Return the schemas directly in a keyword's value, by their paths in it."""
    if isinstance(value, list) and holds in (Holds.LIST, Holds.ONE_OR_LIST):
        return {(position,): part for position, part in enumerate(value)}
    if isinstance(value, dict) and holds is Holds.MAP:
        return {(key,): part for key, part in value.items()}
    if isinstance(value, dict) and holds is Holds.MAP_OR_NAMES:
        return {(key,): part for key, part in value.items() if not isinstance(part, list)}
    return {(): value} if holds in (Holds.ONE, Holds.ONE_OR_LIST) else {}


def replace_nested(value: object, holds: Holds, replace: Callable[[object], object]) -> object:
    """Return a keyword's value with its schemas replaced; the same object if none differs."""
    nested = find_nested(value, holds)
    changed = {path: new for path, part in nested.items() if (new := replace(part)) is not part}
    if changed and isinstance(value, list) and () not in changed:
        return [changed.get((position,), part) for position, part in enumerate(value)]
    if changed and isinstance(value, dict) and () not in changed:
        return {key: changed.get((key,), part) for key, part in value.items()}
    return changed.get((), value)
