"""Validation by compiled schemas, with jsonschema as the oracle."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.base.limits import MAX_CHECKS
from backedge.parsers import schema_validation
from backedge.parsers.schema import FunctionSchema
from backedge.parsers.schema_validation import accepts
from hypothesis import HealthCheck, given, settings

from tests.parsers.drawn_schemas import Drawn, drawn_schemas, values

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]


def compile_value(schema: Any, **more: Any) -> Any:
    return FunctionSchema({"properties": {"x": schema}, **more}).member("x")


@settings(max_examples=400, deadline=None, database=None, suppress_health_check=SLOW)
@given(drawn=drawn_schemas(), other=values)
def test_it_accepts_what_jsonschema_accepts(drawn: Drawn, other: Any) -> None:
    schema = FunctionSchema(drawn.parameters).member("x")
    for value in (drawn.value, other, str(drawn.value), [drawn.value]):
        assert accepts(schema, value) == drawn.accepts(value), value


@pytest.mark.parametrize(
    ("schema", "accepted", "rejected"),
    [
        ({"items": [{"type": "null"}], "additionalItems": {"type": "integer"}}, [None, 1], [1]),
        ({"prefixItems": [{"type": "null"}], "items": {"type": "integer"}}, [None, 1], [None, ""]),
        ({"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False},
         {"a": 1}, []),
        ({"additionalProperties": {"type": "null"}}, {"a": None}, {"a": 1}),
        ({"additionalProperties": False}, {}, {"a": 1}),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 3.5}, 2, 1),
        ({"type": "array", "minItems": 1, "maxItems": 1}, [0], []),
        ({"type": "object", "minProperties": 1, "maxProperties": 1}, {"a": 0}, {}),
        ({"minimum": 5}, True, 4),
        ({"type": "float", "required": True}, 1.5, ""),
        ({"enum": [{"a": [1]}]}, {"a": [1.0]}, {"a": [True]}),
        ({"type": "integer", "nullable": True}, None, ""),
        ({"items": False}, [], [1]),
    ],
)  # fmt: skip
def test_keywords(schema: Any, accepted: Any, rejected: Any) -> None:
    assert accepts(compile_value(schema), accepted)
    assert not accepts(compile_value(schema), rejected)


def test_what_refers_to_itself_demands_nothing() -> None:
    loop = {"anyOf": [{"$ref": "#/$defs/L"}] * 60}
    assert accepts(compile_value({"$ref": "#/$defs/L"}, **{"$defs": {"L": loop}}), 1)


def test_a_recursive_schema() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}, "required": ["v"]}
    schema = compile_value({"$ref": "#/$defs/T"}, **{"$defs": {"T": tree}})
    assert accepts(schema, {"v": 1, "next": {"v": 2, "next": {"v": 3}}})
    assert not accepts(schema, {"v": 1, "next": {"v": 2, "next": {}}})


def test_the_steps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 15 definitions refers to the next one twice: 2 ** 15 ways lead to the last one."""
    definitions: dict[str, Any] = {
        f"L{n}": {"anyOf": [{"$ref": f"#/$defs/L{n + 1}"}, {"$ref": f"#/$defs/L{n + 1}"}]}
        for n in range(15)
    }
    definitions["L15"] = {"type": "integer"}
    checks: list[object] = []

    def count(limits: Any, kind: str, value: object) -> bool:
        checks.append(value)
        return True

    monkeypatch.setattr(schema_validation, "_is_within_limits", count)
    schema = compile_value({"$ref": "#/$defs/L0"}, **{"$defs": definitions})
    assert not accepts(schema, "x")
    assert accepts(schema, 1)
    assert 0 < len(checks) <= 100
    checks.clear()
    assert accepts(
        compile_value({"items": {"type": "integer"}}), json.loads(f"[{'1e3,' * 20000}1]")
    )
    assert len(checks) <= MAX_CHECKS


def test_deep_values() -> None:
    tree = {"type": "array", "items": {"$ref": "#/$defs/T"}}
    schema = compile_value({"$ref": "#/$defs/T"}, **{"$defs": {"T": tree}})
    assert accepts(schema, json.loads("[" * 900 + "]" * 900))
