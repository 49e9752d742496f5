"""Which schemas of tools are accepted, and what engines get of them."""

import pytest
from backedge.frontend.request.tool_schema_cache import (
    compiles_tools,
    find_tool_schema_fault,
    standard_parameters,
    with_standard_tools,
)
from backedge.guided.client_schemas import find_fault

from tests.frontend.chat_requests import NAMED, TOOL, chat_request

DRAFT_4, DRAFT_7 = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-07/schema#",
)
BFCL = {
    "type": "dict",
    "properties": {
        "a": {"type": "float", "description": "x"},
        "b": {"type": "tuple", "items": {"type": "integer"}},
        "c": {"type": "any"},
        "d": {"type": "HashMap", "properties": {"e": {"type": "ArrayList", "required": True}}},
    },
    "required": ["a"],
}
GOOD = [
    {},
    BFCL,
    {"type": "String"},
    {"type": "LONG"},
    {"items": [{"type": "string"}, {"type": "int"}]},
    {"$schema": DRAFT_7, "items": [{"type": "string"}], "additionalItems": False},
    {"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True},
    {"$schema": "http://example.test/unknown", "type": "dict"},
    {"$schema": 5} | {"$schema": "https://json-schema.org/draft/2020-12/schema"},
]
BAD = [
    ({"type": "nonsense"}, ".type"),
    ({"type": 5}, ".type"),
    ({"properties": {"a": {"items": [{"type": "nonsense"}]}}}, ".properties.a.items.0.type"),
    ({"items": [{}], "additionalItems": {"type": 5}}, ".additionalItems.type"),
    ({"properties": {"items": {"type": 5}}, "items": [{}]}, ".properties.items.type"),
    ({"$schema": DRAFT_7, "items": [{"type": "nonsense"}]}, ".items.0.type"),
    ({"$schema": DRAFT_4, "exclusiveMinimum": 5}, ".exclusiveMinimum"),
    ({"required": "a"}, ".required"),
]


@pytest.mark.parametrize("schema", GOOD)
def test_accepted(schema):
    assert find_tool_schema_fault(schema) is None


@pytest.mark.parametrize(("schema", "path"), BAD)
def test_rejected(schema, path):
    fault = find_tool_schema_fault(schema)
    assert fault is not None
    assert "".join(f".{word}" for word in fault.path) == path
    assert fault.allowed


def test_a_schema_nested_too_deeply():
    deep: dict[str, object] = {"type": "string"}
    for _ in range(300):
        deep = {"items": deep}
    fault = find_tool_schema_fault(deep)
    assert fault is not None
    assert "levels deep" in fault.allowed


def test_the_answers_schema_honours_its_draft():
    assert find_fault({"$schema": DRAFT_7, "items": [{}]}) is None
    assert find_fault({"items": [{}]}) is not None
    assert find_fault({"type": "dict"}) is not None
    assert find_fault(True) is None


def test_engines_get_the_standard_form():
    tool = {"type": "function", "function": {"name": "b", "parameters": BFCL}}
    request = chat_request(tools=[TOOL, tool])
    first, second = with_standard_tools(request)["tools"]
    assert first is request.raw["tools"][0]
    assert second["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "a": {"type": "number", "description": "x"},
            "b": {"type": "array", "items": {"type": "integer"}},
            "c": {},
            "d": {"type": "object", "properties": {"e": {"type": "array"}}, "required": ["e"]},
        },
        "required": ["a"],
    }
    assert request.raw["tools"][1]["function"]["parameters"] is BFCL
    assert standard_parameters({"type": "object"}) == {"type": "object"}
    for plain in (chat_request(tools=[TOOL]), chat_request()):
        assert with_standard_tools(plain) is plain.raw


@pytest.mark.parametrize(
    ("fields", "compiled"),
    [
        ({}, False),
        ({"tools": [TOOL]}, False),
        ({"tools": [TOOL], "tool_choice": "none"}, False),
        ({"tools": [TOOL], "tool_choice": "required"}, True),
        ({"tools": [TOOL], "tool_choice": NAMED}, True),
        ({"tools": [{"function": {"name": "f", "strict": True}}]}, True),
    ],
)
def test_when_engines_compile_tools(fields, compiled):
    assert compiles_tools(chat_request(**fields)) is compiled
