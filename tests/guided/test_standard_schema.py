"""Tools' schemas in the words of JSON Schema."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from backedge.guided import client_schemas
from backedge.guided.client_schemas import MAX_DEPTH, standardize
from backedge.parsers.schema import FunctionSchema
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

CASES: list[tuple[Any, Any]] = [
    ({"type": "dict"}, {"type": "object"}),
    ({"type": ["Str", "none", "str"]}, {"type": ["string", "null"]}),
    ({"type": "any", "description": "d"}, {"description": "d"}),
    ({"type": ["any", "null"]}, {}),
    ({"type": "", "description": "d"}, {"description": "d"}),
    ({"type": None, "default": None, "const": None}, {"default": None, "const": None}),
    ({"type": "dict", "default": None}, {"type": "object", "default": None}),
    (
        {"type": "dict", "properties": {"type": {"type": "ArrayList", "items": {"type": "float"}}}},
        {"type": "object", "properties": {"type": {"type": "array", "items": {"type": "number"}}}},
    ),
    (
        {"properties": {"a": {"type": "int", "required": True}, "b": {"required": False}}},
        {"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]},
    ),
    (
        {"required": ["b"], "properties": {"a": {"required": True}, "b": {"required": True}}},
        {"required": ["b", "a"], "properties": {"a": {}, "b": {}}},
    ),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "str"}],
         "additionalItems": {"type": "int"}},
        {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
    ),
    ({"items": [{}]}, {"prefixItems": [{}]}),
    ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
    ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
    ({"anyOf": [{"type": "tuple"}, True], "not": {"type": "bool"}},
     {"anyOf": [{"type": "array"}, True], "not": {"type": "boolean"}}),
    ({"$defs": {"X": {"type": "long"}}, "definitions": {"Y": {"type": "String"}}},
     {"$defs": {"X": {"type": "integer"}}, "definitions": {"Y": {"type": "string"}}}),
]  # fmt: skip
STANDARD: list[Any] = [
    {},
    {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
    {"enum": ["dict", None], "const": {"type": "dict"}, "default": {"type": "dict"}},
    {"type": "nonsense"},
    {"type": 5, "properties": 5, "anyOf": 5, "items": 5, "required": 5},
    {"$schema": "https://json-schema.org/draft/2020-12/schema", "exclusiveMinimum": 5},
]


@pytest.mark.parametrize(("schema", "standard"), CASES)
def test_the_standard_form(schema: Any, standard: Any) -> None:
    before = copy.deepcopy(schema)
    assert standardize(schema) == standard
    assert schema == before
    Draft202012Validator.check_schema(standardize(schema))


@pytest.mark.parametrize("schema", STANDARD)
def test_what_is_standard_stays_the_same_object(schema: Any) -> None:
    assert standardize(schema) is schema


def test_the_words_of_older_drafts_can_stay() -> None:
    schema = {"items": [{"type": "str"}], "exclusiveMinimum": True, "minimum": 1}
    assert standardize(schema, newest=False) == {**schema, "items": [{"type": "string"}]}


def test_the_walk_is_linear_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    visits: list[object] = []
    walk = standardize

    def count(schema: Any, *, newest: bool = True, depth: int = 0) -> Any:
        visits.append(schema)
        return walk(schema, newest=newest, depth=depth)

    monkeypatch.setattr(client_schemas, "standardize", count)
    count({"properties": {f"p{n}": {"type": "dict"} for n in range(100)}})
    assert len(visits) == 101
    visits.clear()
    deep: dict[str, Any] = {"type": "dict"}
    for _ in range(5000):
        deep = {"items": deep}
    count(deep)
    assert len(visits) == MAX_DEPTH + 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["dict", "any", "string", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "items", "properties", "anyOf", "required", "minimum", "$ref",
                             "exclusiveMinimum", "additionalItems", "$schema", "enum", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(schema=st.dictionaries(st.sampled_from(["type", "items", "properties"]), json_values))
def test_whatever_it_is_the_standard_form_is_final(schema: Any) -> None:
    before = json.dumps(schema)
    standard = standardize(schema)
    assert json.dumps(schema) == before
    assert standardize(standard) == standard
    FunctionSchema(schema).member("a").kinds  # noqa: B018 - it raises nothing


class Compared:
    """No name of a type; counts how often it is compared."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return self is other

    __hash__ = None  # type: ignore[assignment]  # as the lists and objects of JSON


def test_a_list_of_many_types_is_read_once() -> None:
    names: list[object] = ["dict", *(Compared() for _ in range(1000)), "object"]
    standard = standardize({"type": names})
    assert len(standard["type"]) == len(names) - 1
    assert Compared.count < 5 * len(names)
