"""What the tools of a request declare: the types that argument values are to have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

KINDS = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
# Deeper than any sane schema nests; a `$ref` may lead in a circle.
MAX_DEPTH = 8


def read_parameters(tools: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return each function's parameters schema by the function's name."""
    schemas: dict[str, dict[str, Any]] = {}
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, dict) and isinstance(name := function.get("name"), str):
            parameters = function.get("parameters")
            schemas[name] = parameters if isinstance(parameters, dict) else {}
    return schemas


def declared_types(parameters: dict[str, Any], key: str) -> frozenset[str]:
    """Return the JSON types that the value of `key` may have; empty if nothing is declared.

    parameters: the JSON schema of a function's parameters.
    """
    return allowed_types(find_member(parameters, key, parameters), parameters)


def allowed_types(schema: Any, root: dict[str, Any]) -> frozenset[str]:
    """Return the JSON types that a value of `schema` may have. root: what its references point into."""
    return frozenset(_kinds(schema, root, MAX_DEPTH))


def find_member(schema: Any, key: str, root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object's member `key`, or of a list's items; empty if nothing is declared."""
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


def _kinds(schema: Any, root: dict[str, Any], depth: int) -> Iterator[str]:
    if not isinstance(schema, dict) or depth == 0:
        return
    declared = schema.get("type")
    if declared is not None:
        names = declared if isinstance(declared, list) else [declared]
        yield from (name for name in names if name in KINDS)
        return
    for value in (*schema.get("enum", ()), *((schema["const"],) if "const" in schema else ())):
        yield json_type(value)
    for word in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(word) or ():
            yield from _kinds(part, root, depth - 1)
    if isinstance(reference := schema.get("$ref"), str):
        yield from _kinds(_resolve(reference, root), root, depth - 1)
    if "properties" in schema:
        yield "object"
    if "items" in schema:
        yield "array"


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


def _resolve(reference: str, root: dict[str, Any]) -> Any:
    """Return what a reference within the schema (`#/$defs/...`) points at, or None."""
    node: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        node = (
            node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        )
    return node
