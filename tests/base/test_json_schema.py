from __future__ import annotations

import pytest
from backedge.base.json_schema import (
    ANY,
    HOLDERS,
    HOLDERS_BEFORE_2020,
    JSON_TYPES,
    Holds,
    replace_nested,
    to_json_type,
    walk,
)

NAMES = {
    "string": "str String STRING text char varchar varchar(255) Enum uuid",
    "integer": "int Integer INT int32 uint64 long Long short byte bigint",
    "number": "float Float float64 double Double decimal(10,2) num",
    "boolean": "bool Boolean BOOLEAN",
    "null": "none None NULL void",
    "object": "dict Dict dict[str,int] java.util.HashMap HashMap Map<String,Object> hashmap map",
    "array": "list List List[str] tuple Tuple ArrayList Array Set string[] Queue",
    ANY: "any Any ANY Object? Optional[int] Union[int,str]",
}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind, names in NAMES.items() for name in names.split()]
)
def test_names(name: str, kind: str) -> None:
    assert to_json_type(name) == kind


@pytest.mark.parametrize("name", sorted(JSON_TYPES))
def test_json_types_are_their_own_names(name: str) -> None:
    assert to_json_type(name) == name
    assert to_json_type(f" {name.upper()} ") == name


@pytest.mark.parametrize(
    "name", ["", "internal", "list_price", "str-ing", "numb", "?", "12", "[]x"]
)
def test_unknown_names(name: str) -> None:
    assert to_json_type(name) is None


def test_the_walk_yields_each_nested_schema_with_its_path() -> None:
    schema = {
        "properties": {"a": {"items": [{"title": "old"}]}, "b": True},
        "dependencies": {"a": ["b"], "b": {"not": {}}},
        "anyOf": [{"const": {"not": {}}}, 5],
        "properties of another": {"not": {}},
    }
    assert dict(walk(schema)) == {
        (): schema,
        ("properties", "a"): {"items": [{"title": "old"}]},
        ("properties", "a", "items"): [{"title": "old"}],
        ("properties", "b"): True,
        ("dependencies", "b"): {"not": {}},
        ("dependencies", "b", "not"): {},
        ("anyOf", 0): {"const": {"not": {}}},
        ("anyOf", 1): 5,
    }
    older = dict(walk(schema, HOLDERS_BEFORE_2020))
    assert older["properties", "a", "items", 0] == {"title": "old"}
    assert ("properties", "a", "items") not in older


def test_the_walk_is_linear_whatever_stands_in_another() -> None:
    schema: object = {}
    for _ in range(5000):
        schema = {"not": schema}
    assert sum(1 for _ in walk({"anyOf": [schema, {"$ref": "#"}]})) == 5003


@pytest.mark.parametrize(
    ("value", "holds", "replaced"),
    [
        ([1, 2], Holds.LIST, [1, 20]),
        ({"a": 1, "b": 2}, Holds.MAP, {"a": 1, "b": 20}),
        (2, Holds.ONE, 20),
        ([2], Holds.ONE_OR_LIST, [20]),
        ({"a": 2, "b": ["c"]}, Holds.MAP_OR_NAMES, {"a": 20, "b": ["c"]}),
    ],
)
def test_nested_schemas_are_replaced(value: object, holds: Holds, replaced: object) -> None:
    assert replace_nested(value, holds, lambda part: 20 if part == 2 else part) == replaced
    assert replace_nested(value, holds, lambda part: part) is value


@pytest.mark.parametrize("word", sorted(HOLDERS))
def test_a_value_of_a_wrong_form_holds_no_schema(word: str) -> None:
    expected = [((), {word: 5}), ((word,), 5)] if HOLDERS[word] is Holds.ONE else [((), {word: 5})]
    assert list(walk({word: 5})) == expected
