from __future__ import annotations

from typing import Any

import pytest
from backedge.parsers.schema import declared_types, read_parameters

DEFINITIONS = {"Unit": {"enum": ["C", "F"]}, "Loop": {"$ref": "#/$defs/Loop"}}

CASES: list[tuple[Any, set[str]]] = [
    ({"type": "string"}, {"string"}),
    ({"type": ["integer", "null"]}, {"integer", "null"}),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"string", "null"}),
    ({"oneOf": [{"type": "array"}, {"$ref": "#/$defs/Unit"}]}, {"array", "string"}),
    ({"enum": [1, "a", None, True, 2.5]}, {"integer", "string", "null", "boolean", "number"}),
    ({"const": {}}, {"object"}),
    ({"properties": {}}, {"object"}),
    ({"items": {}}, {"array"}),
    ({"$ref": "#/$defs/Unit"}, {"string"}),
    ({"$ref": "#/$defs/Loop"}, set()),
    ({"$ref": "#/nowhere"}, set()),
    ({"type": "nonsense"}, set()),
    ({}, set()),
    (True, set()),
]


@pytest.mark.parametrize(("schema", "kinds"), CASES)
def test_kinds(schema: Any, kinds: set[str]) -> None:
    assert declared_types({"properties": {"x": schema}, "$defs": DEFINITIONS}, "x") == kinds


def test_undeclared() -> None:
    assert declared_types({}, "x") == frozenset()
    assert declared_types({"properties": {}, "additionalProperties": {"type": "integer"}}, "x") == {
        "integer"
    }


@pytest.mark.parametrize("tool", [{}, {"function": None}, {"function": {"name": 3}}])
def test_what_is_no_function_declares_nothing(tool: dict[str, Any]) -> None:
    assert read_parameters([tool]) == {}
    assert read_parameters([{"function": {"name": "f"}}]) == {"f": {}}
