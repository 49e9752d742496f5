"""The JSON types that a tool's schema declares for the values of its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .json_types import JsonObject

KINDS = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
# Deeper than any sane schema nests: a `$ref` may lead in a circle.
MAX_DEPTH = 8


def read_parameters(tools: Iterable[JsonObject]) -> dict[str, JsonObject]:
    """Return each function's parameters schema by the function's name."""
    schemas: dict[str, JsonObject] = {}
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, dict) and isinstance(name := function.get("name"), str):
            parameters = function.get("parameters")
            schemas[name] = parameters if isinstance(parameters, dict) else {}
    return schemas


def declared_types(parameters: JsonObject, key: str) -> frozenset[str]:
    """Return the JSON types that the value of `key` may have; empty if none are declared.

    parameters: the JSON schema of a function's parameters.
    """
    return allowed_types(find_member(parameters, key, parameters), parameters)


def allowed_types(schema: object, root: JsonObject) -> frozenset[str]:
    """Return the JSON types that a value of `schema` may have.

    root: the schema that references in `schema` point into.
    """
    return frozenset(_kinds(schema, root, MAX_DEPTH))


def find_member(schema: object, key: str, root: JsonObject) -> JsonObject:
    """Return the schema of an object's member `key`, or of an array's items.

    Empty if there is none.
    """
    if isinstance(schema, dict) and isinstance(reference := schema.get("$ref"), str):
        schema = _resolve(reference, root)
    if not isinstance(schema, dict):
        return {}
    properties = schema.get("properties")
    declared = properties.get(key) if isinstance(properties, dict) else None
    for word in ("items", "additionalProperties"):
        if declared is None:
            declared = schema.get(word)
    return declared if isinstance(declared, dict) else {}


def _kinds(schema: object, root: JsonObject, depth: int) -> Iterator[str]:
    if not isinstance(schema, dict) or depth == 0:
        return
    declared = schema.get("type")
    if declared is not None:
        names = declared if isinstance(declared, list) else [declared]
        yield from (name for name in names if name in KINDS)
        return
    yield from map(json_type, schema.get("enum", ()))
    if "const" in schema:
        yield json_type(schema["const"])
    for part in _alternatives(schema, root):
        yield from _kinds(part, root, depth - 1)
    if "properties" in schema:
        yield "object"
    if "items" in schema:
        yield "array"


def _alternatives(schema: JsonObject, root: JsonObject) -> Iterator[object]:
    """Yield the schemas that `schema` combines or refers to."""
    for word in ("anyOf", "oneOf", "allOf"):
        yield from schema.get(word) or ()
    if isinstance(reference := schema.get("$ref"), str):
        yield _resolve(reference, root)


def json_type(value: object) -> str:
    """Return the JSON type of a value that was decoded from JSON."""
    if value is None:
        return "null"
    for kind, types in (
        ("boolean", bool),
        ("string", str),
        ("integer", int),
        ("number", float),
        ("array", list),
    ):
        if isinstance(value, types):
            return kind
    return "object"


def _resolve(reference: str, root: JsonObject) -> object:
    """Return the part of the schema that a reference (`#/$defs/...`) points at, or None."""
    node: object = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        node = (
            node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        )
    return node
