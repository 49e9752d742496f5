from __future__ import annotations

from typing import Any

import pytest
from backedge.base.limits import MAX_PARTS
from backedge.parsers.schema import (
    UNDECLARED,
    FunctionSchema,
    ValueSchema,
    declare,
    json_type,
    read_parameters,
)

DEFINITIONS = {
    "Unit": {"enum": ["C", "F"]},
    "Loop": {"$ref": "#/$defs/Loop"},
    "A/B~C é": {"type": "array"},
    "Tree": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Branch"}]},
    "Branch": {"anyOf": [{"type": "array"}, {"$ref": "#/$defs/Tree"}]},
}

CASES: list[tuple[Any, set[str]]] = [
    ({"type": "string"}, {"string"}),
    ({"type": ["integer", "null"]}, {"integer", "null"}),
    ({"type": "number"}, {"integer", "number"}),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"string", "null"}),
    ({"oneOf": [{"type": "array"}, {"$ref": "#/$defs/Unit"}]}, {"array", "string"}),
    ({"enum": [1, "a", None, True, 2.5]}, {"integer", "string", "null", "boolean", "number"}),
    ({"const": {}}, {"object"}),
    ({"const": 42.0}, {"integer"}),
    ({"properties": {}}, {"object"}),
    ({"items": {}}, {"array"}),
    ({"$ref": "#/$defs/Unit"}, {"string"}),
    ({"$ref": "#/$defs/A~1B~0C%20%C3%A9"}, {"array"}),
    ({"$ref": "#/properties/x/anyOf/0", "anyOf": [{"type": "null"}]}, {"null"}),
    ({"$ref": "#/$defs/Tree"}, {"integer", "array"}),
    ({"$ref": "#/$defs/Branch"}, {"integer", "array"}),
    ({"$ref": "#"}, {"object"}),
    ({"type": "string", "nullable": True}, {"string", "null"}),
    ({"type": "string", "anyOf": [{"type": "string"}, {"type": "null"}]}, {"string"}),
    ({"type": ["string", "null"], "oneOf": [{"type": "string"}, {"type": "integer"}]}, {"string"}),
    ({"type": "string", "anyOf": [{"minLength": 1}, {"type": "null"}]}, {"string"}),
    ({"allOf": [{"const": "auto"}, {"minLength": 0}]}, {"string"}),
    ({"allOf": [{"type": ["integer", "string"]}, {"type": ["string", "null"]}]}, {"string"}),
    ({"$ref": "#/$defs/Unit", "type": ["string", "null"]}, {"string"}),
    ({"type": "HashMap"}, {"object"}),
    ({"type": ["Str", "none"]}, {"string", "null"}),
    ({"anyOf": [{}, {"type": "null"}]}, set(declare("any").kinds)),
    ({"type": "any"}, set(declare("any").kinds)),
]
NOTHING_DECLARED: list[Any] = [
    {"$ref": "#/$defs/Loop"},
    {"$ref": "#/nowhere"},
    {"$ref": "#/$defs/Unit/enum/7"},
    {"$ref": "other.json"},
    {"$ref": 3},
    {"type": "nonsense"},
    {"type": {}},
    {"type": "string", "allOf": [{"type": "integer"}]},
    {"description": "anything"},
    {"anyOf": "no list"},
    {},
    True,
    None,
]


def compile_parameters(schema: Any) -> FunctionSchema:
    return FunctionSchema({"type": "object", "properties": {"x": schema}, "$defs": DEFINITIONS})


@pytest.mark.parametrize(("schema", "kinds"), CASES)
def test_kinds(schema: Any, kinds: set[str]) -> None:
    compiled = compile_parameters(schema).member("x")
    assert compiled.kinds == kinds
    assert compiled.declared


@pytest.mark.parametrize("schema", NOTHING_DECLARED)
def test_nothing_is_declared(schema: Any) -> None:
    compiled = compile_parameters(schema).member("x")
    assert not compiled.declared
    assert compiled.kinds == declare("any").kinds


def test_undeclared_keys() -> None:
    assert FunctionSchema({}).member("x") is UNDECLARED
    assert FunctionSchema({"properties": []}).member("x") is UNDECLARED
    assert FunctionSchema({"additionalProperties": {"type": "integer"}}).member("x").kinds == {
        "integer"
    }


def test_members_of_alternatives() -> None:
    place = {"anyOf": [{"$ref": "#/$defs/P"}, {"properties": {"a": {"type": "null"}}}]}
    root = {"properties": {"p": place}, "$defs": {"P": {"properties": {"a": {"type": "number"}}}}}
    member = FunctionSchema(root).member("p").member("a")
    assert member.kinds == {"number", "integer", "null"}
    assert FunctionSchema(root).member("p").member("b") is UNDECLARED


def many_references(count: int) -> dict[str, Any]:
    """Return a schema that refers to itself in each of `count` alternatives."""
    loop = {"anyOf": [{"$ref": "#/$defs/L"} for _ in range(count)] + [{"type": "integer"}]}
    return {"properties": {"x": {"$ref": "#/$defs/L"}}, "$defs": {"L": loop}}


def ladder(count: int) -> dict[str, Any]:
    """Return a chain of definitions, each of which refers to the next one twice."""
    definitions: dict[str, Any] = {
        f"L{n}": {"anyOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 2 + [{"$ref": f"#/$defs/L{n + 1}"}]}
        for n in range(count)
    }
    definitions[f"L{count}"] = {"type": "integer"}
    return {"properties": {"x": {"$ref": "#/$defs/L0"}}, "$defs": definitions}


@pytest.mark.parametrize(("root", "parts"), [(many_references(60), 64), (ladder(15), 50)])
def test_each_part_is_compiled_once(root: dict[str, Any], parts: int) -> None:
    schema = FunctionSchema(root)
    assert schema.member("x").kinds == {"integer"}
    assert schema.size <= parts
    before = schema.size
    schema.member("x")
    assert schema.size == before


def test_a_large_schema_is_compiled_in_part() -> None:
    many = [{"type": "integer", "minimum": n} for n in range(2 * MAX_PARTS)]
    schema = FunctionSchema({"properties": {"x": {"anyOf": many}}})
    assert "integer" in schema.member("x").kinds
    assert schema.size == MAX_PARTS


def test_plain_types_are_compiled_once_for_all_functions() -> None:
    one, other = (
        FunctionSchema({"properties": {"x": {"type": "string", "description": text}}})
        for text in "ab"
    )
    assert one.member("x") is other.member("x")
    assert one.size == 0


@pytest.mark.parametrize("step", [1, -1])
def test_the_types_of_a_long_chain(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Each of 40 definitions refers to the next; the order in which they are met is no cost."""
    names = [f"L{n}" for n in range(40)]
    definitions: dict[str, Any] = {
        name: {"$ref": f"#/$defs/{names[position + 1]}"} for position, name in enumerate(names[:-1])
    }
    definitions["L39"] = {"type": "integer"}
    root = {
        "properties": {"x": {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names[::step]]}},
        "$defs": definitions,
    }
    combined: list[object] = []
    combine = ValueSchema.combine_kinds

    def count(schema: ValueSchema, found: Any) -> frozenset[str]:
        combined.append(schema)
        return combine(schema, found)

    monkeypatch.setattr(ValueSchema, "combine_kinds", count)
    schema = FunctionSchema(root)
    assert schema.member("x").kinds == {"integer"}
    assert len(combined) <= 3 * schema.size


def test_a_deep_schema_is_compiled_in_part() -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(5000):
        deep = {"allOf": [deep]}
    assert not FunctionSchema({"properties": {"x": deep}}).member("x").declared


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "null"), (True, "boolean"), ("", "string"), (1, "integer"), (1.0, "integer"),
     (1.5, "number"), ([], "array"), ({}, "object"), (float("inf"), "number")],
)  # fmt: skip
def test_json_types(value: object, kind: str) -> None:
    assert json_type(value) == kind


@pytest.mark.parametrize("tool", [{}, {"function": None}, {"function": {"name": 3}}])
def test_what_is_no_function_declares_nothing(tool: dict[str, Any]) -> None:
    assert read_parameters([tool]) == {}
    assert read_parameters([{"function": {"name": "f"}}]) == {"f": {}}
