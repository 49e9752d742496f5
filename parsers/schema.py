"""Compiles the JSON schemas that tools declare, to type the values of arguments.

`FunctionSchema` compiles the parameters of one function. Each part of the schema becomes one
`ValueSchema`, however many references lead to it, so the cost is linear in the schema, and
references may be circular. A `ValueSchema` knows the JSON types that a value may have, which is
enough to stream most values, and whether it accepts a value, which decides the others.

Not checked: `pattern` (a client's expression may take exponential time), `format`, `not`,
`multipleOf`, `uniqueItems`, conditions, and references out of the schema. A value that violates
only these is accepted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from urllib.parse import unquote

from ..base.json_schema import ANY, JSON_TYPES, split_pointer, to_json_type
from ..base.json_types import JsonObject
from ..base.limits import MAX_CHECKED_DEPTH, MAX_PARTS

# Limit for recomputing types while references are circular; after that any type is allowed.
MAX_ROUNDS = 16

# Python's types of decoded JSON. bool is a subclass of int and comes first.
_PYTHON_TYPES = (
    ("boolean", bool),
    ("string", str),
    ("integer", int),
    ("number", float),
    ("array", list),
)
# Types that contain others.
_SMALLER_TYPES = {"number": {"number", "integer"}, ANY: JSON_TYPES}
# Keywords that imply a value's type if no other keyword determines it.
_IMPLIED_TYPES = {"properties": "object", "items": "array", "prefixItems": "array"}


def read_parameters(tools: Iterable[JsonObject]) -> dict[str, JsonObject]:
    """Return each function's parameters schema by the function's name."""
    schemas: dict[str, JsonObject] = {}
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, dict) and isinstance(name := function.get("name"), str):
            parameters = function.get("parameters")
            schemas[name] = parameters if isinstance(parameters, dict) else {}
    return schemas


class FunctionSchema:
    """The compiled parts of one function's parameters, each compiled on first use.

    parameters: the JSON schema, which references point into. It must not change.
    """

    def __init__(self, parameters: JsonObject) -> None:
        self._root = parameters
        self._parts: dict[int, ValueSchema] = {}

    @property
    def size(self) -> int:
        """Number of compiled parts of the schema, at most `MAX_PARTS`."""
        return len(self._parts)

    @property
    def root(self) -> ValueSchema:
        """The schema of the object of all parameters."""
        return self.compile(self._root)

    def member(self, key: str) -> ValueSchema:
        """Return the schema of the parameter `key`."""
        properties = self._root.get("properties")
        declared = properties.get(key) if isinstance(properties, dict) else None
        if isinstance(declared, dict) and _COMBINING_WORDS.isdisjoint(self._root):
            return self.compile(declared)
        return self.root.member(key)

    def compile(self, schema: object, depth: int = 0) -> ValueSchema:
        """Compile `schema`, a part of the parameters."""
        if not isinstance(schema, dict):
            return NEVER if schema is False else UNDECLARED
        part = self._parts.get(id(schema))
        if part is None and _DECISIVE_WORDS.isdisjoint(schema):
            part = _PLAIN_TYPES.get(str(schema.get("type")))
        if part is None:
            if len(self._parts) >= MAX_PARTS or depth > MAX_CHECKED_DEPTH:
                return UNDECLARED
            part = self._parts[id(schema)] = ValueSchema(self, schema)
            part.read_alternatives(depth + 1)
        return part

    def resolve(self, reference: object) -> object:
        """Return the target of a reference (`#/$defs/Name`); True if it does not exist."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        found: object = self._root
        for key in split_pointer(unquote(reference)):
            if isinstance(found, dict):
                found = found.get(key, True)
            elif isinstance(found, list) and (index := _read_index(key)) < len(found):
                found = found[index]
            else:
                return True
        return found


class ValueSchema:
    """The compiled schema of one value.

    types: the JSON types that `type` allows; None if it allows all.
    literals: the values of `const` and `enum`; the value must match one of each list.
    all_of, any_of, one_of: tuples of schemas, of which all, at least one, or exactly one must
        accept the value. parts: all of these.
    """

    def __init__(self, owner: FunctionSchema, schema: JsonObject) -> None:
        self._owner = owner
        self._schema = schema
        self.types = _read_types(schema)
        self.nullable = schema.get("nullable") is True
        self.literals = tuple(_read_literals(schema))
        self.all_of: tuple[ValueSchema, ...] = ()
        self.any_of: tuple[ValueSchema, ...] = ()
        self.one_of: tuple[ValueSchema, ...] = ()
        self.parts: tuple[ValueSchema, ...] = ()
        self._members: dict[str, ValueSchema] = {}

    def read_alternatives(self, depth: int) -> None:
        """Compile the schemas that this one combines or references."""
        schema, compile_ = self._schema, self._owner.compile
        if _COMBINING_WORDS.isdisjoint(schema):
            return
        every = list(_read_list(schema, "allOf"))
        if "$ref" in schema:
            every.append(self._owner.resolve(schema["$ref"]))
        self.all_of = _once(compile_(part, depth) for part in every)
        self.any_of = _once(compile_(part, depth) for part in _read_list(schema, "anyOf"))
        one_of = [compile_(part, depth) for part in _read_list(schema, "oneOf")]
        again = Counter(one_of)
        # If a part occurs twice it can never be the only match; a third time changes nothing.
        self.one_of = (*_once(one_of), *(part for part in again if again[part] > 1))
        self.parts = (*self.all_of, *self.any_of, *self.one_of)

    @property
    def declared(self) -> bool:
        """Whether the schema restricts the value's type."""
        return _UNDECLARED not in self._found_kinds

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The JSON types that a value may have; all types if the schema declares no type.

        Whole numbers are "integer", so "number" implies "integer".
        """
        return self._found_kinds - {_UNDECLARED}

    @cached_property
    def has_literals(self) -> bool:
        """Whether `const` or `enum` occurs in the schema or its references."""
        return any(part.literals for part in _find_reachable(self))

    @cached_property
    def _found_kinds(self) -> frozenset[str]:
        """The kinds, including `_UNDECLARED` if no type is declared."""
        reachable = _find_reachable(self)
        found = dict.fromkeys(map(id, reachable), frozenset[str]())
        # From the inside out, repeatedly while references are circular.
        for _ in range(MAX_ROUNDS):
            before = dict(found) if len(reachable) > 1 else found
            for part in reachable:
                found[id(part)] = part.combine_kinds(found)
            if found == before:
                # A schema that contradicts itself, or only references itself, declares no type.
                return found[id(self)] or _ANY_KIND
        return JSON_TYPES

    def combine_kinds(self, found: Mapping[int, frozenset[str]]) -> frozenset[str]:
        """Return this schema's kinds, given those of its parts by id."""
        kinds = self._own_kinds
        for part in self.all_of:
            kinds &= found[id(part)]
        for parts in (self.any_of, self.one_of):
            if parts:
                kinds &= frozenset().union(*(found[id(part)] for part in parts)) - {_UNDECLARED}
        return kinds | {"null"} if self.nullable and _UNDECLARED not in kinds else kinds

    @cached_property
    def _own_kinds(self) -> frozenset[str]:
        kinds = _ANY_KIND if self.types is None else self.types
        for values in self.literals:
            # Literals narrow a type; if they contradict it, `type` decides.
            kinds = kinds & frozenset(map(json_type, values)) or kinds
        if self.types is None and not self.literals:
            implied = {kind for word, kind in _IMPLIED_TYPES.items() if word in self._schema}
            kinds = frozenset(implied) or kinds
        return kinds

    # Members and items.

    def member(self, key: str) -> ValueSchema:
        """Return the schema of an object's member `key`, or of an array's items."""
        if key not in self._members:
            found = [
                declared
                for part in _find_reachable(self)
                if isinstance(declared := part.find_member(key), dict)
            ]
            schema = {"anyOf": found} if len(found) > 1 else (*found, True)[0]
            self._members[key] = self._owner.compile(schema)
        return self._members[key]

    def has_property(self, key: str) -> bool:
        """Whether the schema names a member `key` of an object."""
        return any(part.names_member(key) for part in _find_reachable(self))

    def names_member(self, key: str) -> bool:
        """Whether this schema's own `properties` name `key`."""
        properties = self._schema.get("properties")
        return isinstance(properties, dict) and key in properties

    def find_member(self, key: str) -> object:
        """Return this schema's own schema for a member or for items, or None."""
        properties = self._schema.get("properties")
        declared = properties.get(key) if isinstance(properties, dict) else None
        for word in ("prefixItems", "items", "additionalProperties"):
            if declared is None:
                declared = self._schema.get(word)
        return {"anyOf": declared} if isinstance(declared, list) else declared

    def find_property(self, key: str) -> ValueSchema:
        """Return this schema's own requirement for an object's member `key`."""
        if self.names_member(key):
            return self._owner.compile(self._schema["properties"][key])
        if "patternProperties" in self._schema:
            return UNDECLARED
        return self._owner.compile(self._schema.get("additionalProperties"))

    def find_item(self, position: int) -> ValueSchema:
        """Return this schema's own requirement for an array's item."""
        items = self._schema.get("items")
        first, rest = self._schema.get("prefixItems"), items
        if isinstance(items, list):  # as in draft 7
            first, rest = items, self._schema.get("additionalItems")
        if isinstance(first, list) and position < len(first):
            return self._owner.compile(first[position])
        return self._owner.compile(rest)

    @cached_property
    def has_members(self) -> bool:
        """Whether this schema itself restricts an object's members or an array's items."""
        return not _MEMBER_WORDS.isdisjoint(self._schema)

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The keys that an object must have."""
        return tuple(key for key in _read_list(self._schema, "required") if isinstance(key, str))

    @cached_property
    def limits(self) -> Mapping[str, float]:
        """The keywords that limit a number, or the length of a string, object or array."""
        return {
            word: limit
            for word in LIMITS
            if isinstance(limit := self._schema.get(word), int | float)
            and not isinstance(limit, bool)
        }


LIMITS = tuple(
    "minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength minItems "
    "maxItems minProperties maxProperties".split()
)
_COMBINING_WORDS = frozenset({"allOf", "anyOf", "oneOf", "$ref"})
_MEMBER_WORDS = frozenset(
    {"properties", "additionalProperties", "required", "items", "additionalItems", "prefixItems"}
)
# The restrictions of a schema besides the type.
_DECISIVE_WORDS = frozenset(
    {*_COMBINING_WORDS, *_MEMBER_WORDS, *LIMITS, "const", "enum", "nullable"}
)
_UNDECLARED = "undeclared"
_ANY_KIND = JSON_TYPES | {_UNDECLARED}


def json_type(value: object) -> str:
    """Return the JSON type of a value that was decoded from JSON; 1.0 is an integer."""
    if value is None:
        return "null"
    for kind, types in _PYTHON_TYPES:
        if isinstance(value, types):
            whole = isinstance(value, float) and value.is_integer()
            return "integer" if whole else kind
    return "object"


def declare(*kinds: str) -> ValueSchema:
    """Return the schema of values of these types."""
    return FunctionSchema({}).compile({"type": list(kinds)})


def _find_reachable(schema: ValueSchema) -> list[ValueSchema]:
    """Return `schema` and all that it combines or references, each once, inner ones first."""
    if not schema.parts:
        return [schema]
    order = []
    seen = {id(schema)}
    path = [(schema, iter(schema.parts))]
    while path:
        current, rest = path[-1]
        part = next((part for part in rest if id(part) not in seen), None)
        if part is None:
            order.append(current)
            path.pop()
        else:
            seen.add(id(part))
            path.append((part, iter(part.parts)))
    return order


def _read_types(schema: JsonObject) -> frozenset[str] | None:
    """Return the types that `type` names; None if it allows any, or names an unknown one."""
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    types: set[str] = set()
    for name in names:
        kind = to_json_type(name) if isinstance(name, str) else None
        if kind is None:
            return None
        types |= _SMALLER_TYPES.get(kind, {kind})
    return frozenset(types)


def _read_literals(schema: JsonObject) -> Iterator[tuple[object, ...]]:
    if "const" in schema:
        yield (schema["const"],)
    if isinstance(values := schema.get("enum"), list) and values:
        yield tuple(values)


def _read_index(key: str) -> int:
    """Return the index in a part of a pointer; one beyond any list if it is not an index."""
    # Python cannot parse numbers of thousands of digits.
    is_number = key.isdecimal() and len(key) <= len(str(sys.maxsize))
    return int(key) if is_number else sys.maxsize


def _once(parts: Iterable[ValueSchema]) -> tuple[ValueSchema, ...]:
    """Return `parts` without duplicates: a schema may repeat one a hundred thousand times."""
    return tuple(dict.fromkeys(parts))


def _read_list(schema: JsonObject, word: str) -> list[object]:
    found = schema.get(word)
    return found if isinstance(found, list) else []


# The schemas of most parameters, type and description, are made once for all functions.
_PLAIN_TYPES: dict[str, ValueSchema] = {}
_PLAIN_TYPES |= {name: FunctionSchema({}).compile({"type": name}) for name in JSON_TYPES}
UNDECLARED = FunctionSchema({}).compile({})
NEVER = FunctionSchema({}).compile({"type": []})
