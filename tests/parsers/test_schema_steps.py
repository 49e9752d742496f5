"""The work that a schema makes is bounded: steps are counted, lines of the modules that walk it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import pytest
from backedge.base import json_schema
from backedge.base.limits import MAX_CHECKS, MAX_PARTS, MAX_PATTERN_CHARACTERS
from backedge.guided import client_schemas
from backedge.parsers import schema, schema_validation
from backedge.parsers.arguments import type_conversion, typed_json, value_between_tags
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.schema import FunctionSchema
from backedge.parsers.schema_validation import accepts
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.fuzzing import fuzz

WALKERS = (
    json_schema,
    schema,
    schema_validation,
    client_schemas,
    value_between_tags,
    type_conversion,
    typed_json,
)
# Python reads and compiles regular expressions in Python.
REGULAR_EXPRESSIONS = {str(path) for path in Path(re.__file__).parent.glob("*.py")}
FILES = {module.__file__ for module in WALKERS} | REGULAR_EXPRESSIONS
# Lines for each node of the schema, and whatever it is: for 13 parts and 10 values, some 15 lines
# in each of `MAX_CHECKS` steps.
PER_NODE, ALWAYS = 100, 13 * 10 * 15 * MAX_CHECKS


def count_lines(work: Callable[[], object]) -> int:
    """Return how many lines of `FILES` run in `work`."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            return trace if frame.f_code.co_filename in FILES else None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def count_nodes(part: Any) -> int:
    if isinstance(part, dict):
        return 1 + sum(map(count_nodes, part.values()))
    return 1 + sum(map(count_nodes, part)) if isinstance(part, list) else 1


DEEP: list[Any] = []
for _ in range(400):
    DEEP = [DEEP]
VALUES: list[Any] = [
    DEEP,
    None,
    "text",
    3,
    [1, "a", {"x": {"x": 1}}],
    {"x": {"x": {"x": [1, 2]}}, "y": [[[[]]]]},
    [[1]] * 500,
    {str(number): number for number in range(500)},
]
# Of one part each, so that nothing is known of the next one.
VALUES += [{str(number): {} for number in range(2000)}, [[number] for number in range(2000)]]
KEYS = ["x", "0", "1", "missing", *(f"key{number}" for number in range(8))]


def use(parameters: dict[str, Any]) -> None:
    """Do with a schema what parsers and grammars do in an answer."""
    compiled = FunctionSchema(parameters)
    for part in (compiled.root, *map(compiled.member, KEYS)):
        _ = part.kinds, part.declared, part.has_literals
        part.has_property("x")
        part.member("x").member("x")
        for value in VALUES:
            accepts(part, value)
        assert compiled.size <= MAX_PARTS
    calls = ToolCallEmitter({"f": parameters})
    calls.start("f")
    for text in ("5", "[1, 2]", '{"x": 1}', "word"):
        type_conversion.text_to_json(text, calls.schema.member("x"))


def check(parameters: dict[str, Any]) -> None:
    assert count_lines(lambda: use(parameters)) <= ALWAYS + PER_NODE * count_nodes(parameters)


@pytest.mark.parametrize(
    "piece",
    ["a", "[\u0100-\uffff]", "(?i:[\1-\U0010ffff])", "[\\W\u4e00]", "(?<=[\u0100-\uffff])"],
)
def test_a_pattern_costs_as_much_as_its_characters(piece: str) -> None:
    pattern = piece * (MAX_PATTERN_CHARACTERS // len(piece))
    lines = count_lines(lambda: client_schemas.find_fault({"pattern": pattern}))
    assert lines <= PER_NODE * len(pattern)


def nest(word: str, depth: int, inner: Any) -> dict[str, Any]:
    for _ in range(depth):
        inner = {word: [inner] if word.endswith("Of") else inner}
    return {"properties": {"x": inner}}


def diamonds(word: str, levels: int, width: int) -> dict[str, Any]:
    """Return a schema of 2 parts for each level, but `width` to the power of `levels` ways."""
    parts = {
        str(level): {word: [{"$ref": f"#/$defs/{level + 1}"}] * width} for level in range(levels)
    }
    return {"$defs": {**parts, str(levels): {"type": "string"}}, "$ref": "#/$defs/0"}


def distinct(count: int, **fields: Any) -> list[Any]:
    return [{"$ref": "#", "title": str(number), **fields} for number in range(count)]


TO_ITSELF = {"$ref": "#"}
ADVERSARIAL: dict[str, dict[str, Any]] = {
    "anyOf of references to itself": {"anyOf": [dict(TO_ITSELF) for _ in range(100)]},
    "of many": {"anyOf": distinct(5000)},
    "allOf": {"allOf": distinct(2000), "type": "object"},
    "oneOf": {"oneOf": distinct(2000)},
    "all three, in members": {
        "properties": {key: {"anyOf": distinct(200), "allOf": distinct(200)} for key in "xyz"},
        "additionalProperties": {"oneOf": distinct(200)},
        "items": {"anyOf": distinct(200)},
    },
    "mutual references": {
        "$defs": {
            str(number): {
                "anyOf": [{"$ref": f"#/$defs/{(number * 7 + other) % 60}"} for other in range(60)]
            }
            for number in range(60)
        },
        "$ref": "#/$defs/0",
    },
    "a long chain": {
        "$defs": {str(number): {"$ref": f"#/$defs/{number + 1}"} for number in range(2000)},
        "$ref": "#/$defs/0",
    },
    "deep allOf": nest("allOf", 400, {"type": "string"}),
    "deep anyOf": nest("anyOf", 400, {"type": "string"}),
    "deep items": nest("items", 400, {"type": "string"}),
    "diamonds of allOf": diamonds("allOf", 40, 2),
    "diamonds of anyOf": diamonds("anyOf", 40, 3),
    "diamonds of oneOf": diamonds("oneOf", 15, 30),
    "a huge enum": {"properties": {"x": {"enum": [*range(20_000)]}}},
    "an enum of objects": {
        "properties": {"x": {"enum": [{"x": [number]} for number in range(3000)]}}
    },
    "prefixItems": {"items": {"prefixItems": distinct(2000)}, "prefixItems": distinct(2000)},
    "items as draft 7 has them": {
        "items": distinct(2000),
        "additionalItems": {"anyOf": distinct(9)},
    },
    "patternProperties": {
        "patternProperties": {"(a+)+$": dict(TO_ITSELF), "(.*)*" * 500: True},
        "properties": {"x": {"pattern": "(a|a)*b", "patternProperties": {"(": {}}}},
    },
    "long pointers": {
        "anyOf": [{"$ref": "#" + "/anyOf/0" * 300, "title": str(number)} for number in range(300)]
    },
    "pointers with huge numbers": {
        "anyOf": [{"$ref": f"#/anyOf/{'1' * 5000}"}, {"$ref": "#/anyOf/²"}]
    },
    "one part a hundred thousand times": {
        "allOf": [True] * 100_000,
        "additionalProperties": {"$ref": "#"},
        "items": {"$ref": "#"},
    },
    "one of them, as often": {
        "oneOf": [False] * 100_000 + [True],
        "additionalProperties": {"$ref": "#"},
        "items": {"$ref": "#"},
    },
    "a huge enum for each member": {
        "additionalProperties": {"enum": [f"value {number}" for number in range(20_000)]},
        "items": {"items": {"enum": [f"value {number}" for number in range(20_000)]}},
    },
    "a const that is nested deeply": {"properties": {"x": {"const": DEEP}}},
    "required": {"required": [str(number) for number in range(20_000)]},
    "limits": {"properties": {"x": {"minimum": 10**400, "maxLength": 1e308, "minItems": -1}}},
}


@pytest.mark.parametrize("parameters", ADVERSARIAL.values(), ids=ADVERSARIAL)
def test_adversarial_schemas(parameters: dict[str, Any]) -> None:
    check(parameters)


names = st.sampled_from(["0", "1", "2", "x"])
references = st.builds(
    lambda where, name: {"$ref": f"#/{where}/{name}"},
    st.sampled_from(["$defs", "properties"]),
    names,
) | st.just({"$ref": "#"})
parts = st.recursive(
    references
    | st.sampled_from([{"type": "string"}, {"enum": [1, [1], {"x": 1}]}, {}, True, False]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **{
                word: st.lists(inner, min_size=1, max_size=4).flatmap(
                    lambda found: st.integers(1, 60).map(lambda times: found * times)
                )
                for word in ("anyOf", "allOf", "oneOf", "prefixItems")
            },
            "properties": st.dictionaries(names, inner, max_size=3),
            "items": inner | st.lists(inner, max_size=3),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.just("(a+)+$"), inner, max_size=1),
        },
    ),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {
            "$defs": st.dictionaries(names, parts, min_size=1),
            "properties": st.dictionaries(names, parts),
        },
        optional={"anyOf": st.lists(parts, max_size=3), "allOf": st.lists(parts, max_size=3)},
    )
)
@fuzz(10)
def test_drawn_schemas(parameters: dict[str, Any]) -> None:
    # As from JSON: no part is the same object as another.
    check(json.loads(json.dumps(parameters)))


class Watched(dict[str, Any]):
    """Notes which keywords were read."""

    read: ClassVar[set[object]] = set()

    def get(self, key: Any, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self.read.add(key)
        return super().__getitem__(key)


def test_no_regular_expression_of_a_schema_is_looked_at() -> None:
    use({"properties": {"x": Watched({"type": "string", "pattern": "(a+)+$"})}})
    assert "type" in Watched.read
    assert "pattern" not in Watched.read


def test_a_value_is_compared_in_so_many_steps() -> None:
    part = FunctionSchema({"allOf": distinct(900), "properties": {"x": {"type": "string"}}}).root
    value = {str(number): {str(number): number} for number in range(200)}
    assert count_lines(lambda: accepts(part, value)) <= 40 * MAX_CHECKS
