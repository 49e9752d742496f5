from __future__ import annotations

import pytest
from backedge.parsers.type_names import ANY, JSON_TYPES, to_json_type

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
