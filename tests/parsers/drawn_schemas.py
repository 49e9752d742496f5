"""Schemas drawn by hypothesis, each with a value that it accepts, and jsonschema as the oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

# Strings that look like something else.
TRICKY = (
    *("42", "4.20", "007", "+5", "1e3", "-0", "true", "False", "null", "None", "TRUE", ""),
    *("[INFO] up", "[1, 2]", "[1] x", "{name} is {age}", '{"a": 1}', "{'a': 1}", '"x"', "'x'"),
    *("[", "{", "(1, 2)", '["a"]', "nullify", "1 2", "a, b", "café", "\\n", "NaN", "Infinity"),
)
strings = st.sampled_from(TRICKY) | st.text("ab1 {}[]\"',:.\\é\n-", max_size=8)
integers = st.integers(-(10**20), 10**20)
numbers = integers | st.floats(allow_nan=False, allow_infinity=False)
keys = st.sampled_from(["a", "b", "c/d", "é~"])
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": strings,
    "integer": integers,
    "number": numbers,
    "boolean": st.booleans(),
    "null": st.none(),
}
values = st.recursive(
    st.one_of(*SCALARS.values()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=4,
)


@dataclass
class Drawn:
    """A schema and a value that it accepts. definitions: what it refers to."""

    schema: dict[str, Any]
    value: Any
    definitions: dict[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of a function whose parameter `x` has this schema."""
        return {"type": "object", "properties": {"x": self.schema}, "$defs": self.definitions}

    def accepts(self, value: Any) -> bool:
        """Whether jsonschema accepts `value`."""
        parameters = without_nullable(self.parameters)
        return bool(Draft202012Validator(parameters).is_valid({"x": value}))


def without_nullable(schema: Any) -> Any:
    """Return a schema in which OpenAPI's `nullable` is said in JSON Schema's words."""
    if isinstance(schema, list):
        return [without_nullable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: part if key in ("enum", "const") else without_nullable(part)
        for key, part in schema.items()
        if key != "nullable"
    }
    return {"anyOf": [plain, {"type": "null"}]} if "nullable" in schema else plain


@st.composite
def drawn_schemas(draw: st.DrawFn) -> Drawn:
    """Return a schema and a value that it accepts."""
    definitions: dict[str, Any] = {}
    schema, value = draw(_schemas(definitions, depth=3))
    drawn = Drawn(schema, value, definitions)
    assume(drawn.accepts(value))
    return drawn


@st.composite
def _schemas(draw: st.DrawFn, definitions: dict[str, Any], depth: int) -> tuple[Any, Any]:
    kinds = ["scalar", "scalar", "types", "limits", "enum", "const"]
    if depth:
        kinds += ["array", "object", "anyOf", "anyOf", "oneOf", "allOf", "$ref", "nullable"]
    kind = draw(st.sampled_from(kinds))
    inner = _schemas(definitions, depth - 1) if depth else st.nothing()
    return _DRAW[kind](draw, inner, definitions)


def _scalar(draw: Any, _inner: Any, _definitions: Any) -> tuple[Any, Any]:
    name = draw(st.sampled_from(sorted(SCALARS)))
    return {"type": name}, draw(SCALARS[name])


def _types(draw: Any, _inner: Any, _definitions: Any) -> tuple[Any, Any]:
    names = draw(st.lists(st.sampled_from(sorted(SCALARS)), min_size=1, max_size=3, unique=True))
    more = draw(st.sets(st.sampled_from(["array", "object"])))
    return {"type": [*names, *sorted(more)]}, draw(SCALARS[names[0]])


def _limits(draw: Any, _inner: Any, _definitions: Any) -> tuple[Any, Any]:
    least = draw(st.integers(-5, 50))
    schema = {"type": ["integer", "string"], "minimum": least, "minLength": 2, "maxLength": 12}
    return schema, draw(st.integers(least, least + 10) | strings)


def _enum(draw: Any, _inner: Any, _definitions: Any) -> tuple[Any, Any]:
    choices = draw(st.lists(values, min_size=1, max_size=4))
    return {"enum": choices}, draw(st.sampled_from(choices))


def _const(draw: Any, _inner: Any, _definitions: Any) -> tuple[Any, Any]:
    value = draw(values)
    return {"const": value}, value


def _array(draw: Any, inner: Any, _definitions: Any) -> tuple[Any, Any]:
    items, value = draw(inner)
    schema = {"type": "array", "items": items}
    return schema, [value] * draw(st.integers(0, 2))


def _object(draw: Any, inner: Any, _definitions: Any) -> tuple[Any, Any]:
    members = draw(st.dictionaries(keys, inner, max_size=2))
    schema = {
        "type": "object",
        "properties": {key: member for key, (member, _) in members.items()},
        "required": sorted(members),
        "additionalProperties": draw(st.booleans()),
    }
    return schema, {key: value for key, (_, value) in members.items()}


def _any_of(draw: Any, inner: Any, _definitions: Any) -> tuple[Any, Any]:
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    return {"anyOf": [part for part, _ in parts]}, draw(st.sampled_from(parts))[1]


def _one_of(draw: Any, inner: Any, _definitions: Any) -> tuple[Any, Any]:
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    schema = {"oneOf": [part for part, _ in parts]}
    if draw(st.booleans()):
        schema["type"] = draw(st.sampled_from([["string", "null"], ["integer", "array", "string"]]))
    return schema, draw(st.sampled_from(parts))[1]


def _all_of(draw: Any, inner: Any, _definitions: Any) -> tuple[Any, Any]:
    part, value = draw(inner)
    other = draw(st.sampled_from([{}, {"minLength": 1}, {"type": ["string", "integer", "null"]}]))
    return {"allOf": [part, other]}, value


def _reference(draw: Any, inner: Any, definitions: dict[str, Any]) -> tuple[Any, Any]:
    part, value = draw(inner)
    name = draw(st.sampled_from(["a", "b/c", "d~e", "f g", "é%"])) + str(len(definitions))
    definitions[name] = part
    encoded = name.replace("~", "~0").replace("/", "~1").replace("%", "%25").replace(" ", "%20")
    return {"$ref": f"#/$defs/{encoded}"}, value


def _nullable(draw: Any, inner: Any, _definitions: Any) -> tuple[Any, Any]:
    part, value = draw(inner)
    return {**part, "nullable": True}, draw(st.sampled_from([value, None]))


_DRAW = {
    "scalar": _scalar,
    "types": _types,
    "limits": _limits,
    "enum": _enum,
    "const": _const,
    "array": _array,
    "object": _object,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "$ref": _reference,
    "nullable": _nullable,
}
