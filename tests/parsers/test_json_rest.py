"""The grammar of the rest of a JSON value, proved with xgrammar at every cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from backedge.base.limits import MAX_REST_PARTS
from backedge.parsers.json_rest import build_rest
from backedge.parsers.schema import FunctionSchema
from backedge.parsers.schema_validation import accepts as is_valid

from tests.parsers.walks import Walker, accepts

xgrammar = pytest.importorskip("xgrammar")

CITY = {"type": "string", "maxLength": 12}
WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": CITY,
        "days": {"type": "integer"},
        "unit": {"enum": ["C", "F", "Ké"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}
# xgrammar's own grammar of a string with a length has no escapes.
ANY_CITY = {**WEATHER, "properties": {**WEATHER["properties"], "city": {"type": "string"}}}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "at": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
        "all": {"type": "array", "items": {"$ref": "#/$defs/point"}, "minItems": 1, "maxItems": 3},
        "share": {"type": "number"},
        "on": {"type": "boolean"},
        "more": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "required": ["name", "all"],
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
            "required": ["x", "y"],
            "additionalProperties": False,
        }
    },
}
CASES: list[tuple[dict[str, Any], Any]] = [
    (WEATHER, {"city": "Oslo"}),
    (ANY_CITY, {"city": 'A"\\\n日é', "days": 12, "unit": "C"}),
    (NESTED, {"name": "a", "at": None, "all": [{"x": 1, "y": -2.5e3}]}),
    (
        NESTED,
        {
            "name": "b",
            "at": {"x": 0, "y": 1},
            "all": [{"x": 1, "y": 2}, {"x": 3, "y": 4.25}],
            "share": 0.5,
            "on": False,
            "more": {"a": 1, "bc": 23},
        },
    ),
    ({"type": "array", "items": {"type": "integer"}}, [1, 23, -4]),
    ({"type": "object"}, {"any": [1, {"x": None}], "t": "u"}),
    ({"type": "array", "prefixItems": [CITY, {"type": "integer"}], "items": False}, ["a", 1]),
    ({"anyOf": [WEATHER, NESTED], "$defs": NESTED["$defs"]}, {"city": "Rom", "days": 3}),
    ({"enum": ["one", 2, None]}, "one"),
    (
        {
            "type": "array",
            "minItems": 1,
            "$defs": NESTED["$defs"],
            "items": {
                "type": "object",
                "anyOf": [
                    {
                        "properties": {"name": {"enum": ["f"]}, "parameters": WEATHER},
                        "required": ["name", "parameters"],
                    },
                    {
                        "properties": {"name": {"enum": ["g"]}, "parameters": NESTED},
                        "required": ["name", "parameters"],
                    },
                ],
            },
        },
        [
            {"name": "f", "parameters": {"city": "B"}},
            {"name": "g", "parameters": {"name": "c", "all": [{"x": 1, "y": 2}]}},
        ],
    ),
]
WRITERS: list[Callable[[Any], str]] = [
    json.dumps,
    lambda value: json.dumps(value, ensure_ascii=False, indent=1),
    lambda value: json.dumps(value, separators=(",", ":")),
]


def build(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    grammar = build_rest(text, schema)
    assert grammar is not None, text
    return {"type": "structural_tag", "format": grammar}


@pytest.mark.parametrize(("schema", "value"), CASES)
def test_each_cut_admits_what_was_cut_off(schema: dict[str, Any], value: Any) -> None:
    # The cuts take turns with the writers.
    for first, write in enumerate(WRITERS):
        text = write(value)
        for cut in range(first, len(text), 3):
            tag = build(text[:cut], schema)
            grammar = xgrammar.Grammar.from_structural_tag(json.dumps(tag))
            assert accepts(grammar, text[cut:]), text[:cut]


@pytest.mark.parametrize(("schema", "value"), CASES)
def test_all_that_it_admits_is_valid(schema: dict[str, Any], value: Any) -> None:
    text = json.dumps(value)
    compiled = FunctionSchema(schema).root
    for cut in range(0, len(text) + 1, 3):
        rest = Walker(build(text[:cut], schema)).walk(f"{cut}")
        assert is_valid(compiled, json.loads(text[:cut] + rest)), (text[:cut], rest)


@pytest.mark.parametrize("depth", [3, 30])
def test_alternatives_that_multiply_are_followed_so_far(depth: int) -> None:
    levels = {
        f"d{level}": {
            "anyOf": [{"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{level + 1}"}}}]
            * 8
        }
        for level in range(depth)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**levels, f"d{depth}": {"type": "string"}}}
    text = json.dumps(build('{"a": ' * depth + '"y', schema))
    assert text.count('"regex"') < 3 * MAX_REST_PARTS
