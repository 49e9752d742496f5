"""Which constraint of the answer Dynamo gets, and in which syntax forced calls are."""

import pytest
from backedge.base.errors import RequestError
from backedge.guided.call_policy import build_guided_decoding, constrains_to_json

from tests.frontend.chat_requests import NAMED, PARAMETERS, TOOL, chat_request, preprocessed

BARE = {"type": "function", "function": {"name": "bare"}}
EMPTY = {
    "type": "function",
    "function": {"name": "e", "parameters": {"type": "object", "additionalProperties": False}},
}
PYTHON_PARAMETERS = {
    "type": "dict",
    "properties": {"a": {"type": "List[int]", "items": {"type": "int"}, "required": True}},
}
PYTHON = {"type": "function", "function": {"name": "p", "parameters": PYTHON_PARAMETERS}}
STANDARD = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a"],
}


def calls(*named, **more):
    of_call = [
        {"properties": {"name": {"type": "string", "enum": [name]}, "parameters": parameters},
         "required": ["name", "parameters"]}
        for name, parameters in named
    ]  # fmt: skip
    return {
        "json": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "anyOf": of_call},
            **more,
        }
    }


# request, guided decoding
GUIDED = [
    ({}, None),
    ({"response_format": {"type": "text"}}, None),
    ({"response_format": {"type": "json_object"}}, {"json": {"type": "object"}}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": PARAMETERS}}},
        {"json": PARAMETERS},
    ),
    (
        {"guided_regex": "a+", "guided_whitespace_pattern": " "},
        {"regex": "a+", "whitespace_pattern": " "},
    ),
    ({"tools": [TOOL]}, None),
    ({"tools": [TOOL], "tool_choice": "auto"}, None),
    ({"tools": [TOOL], "tool_choice": NAMED}, {"json": PARAMETERS}),
    ({"tools": [EMPTY], "tool_choice": {"function": {"name": "e"}}}, {"regex": r"\{\}"}),
    ({"tools": [TOOL], "tool_choice": "required"}, calls(("f", PARAMETERS))),
    ({"tools": [PYTHON], "tool_choice": "required"}, calls(("p", STANDARD))),
    ({"tools": [PYTHON], "tool_choice": {"function": {"name": "p"}}}, {"json": STANDARD}),
    (
        {"tools": [BARE], "tool_choice": "required"},
        calls(("bare", {"type": "object", "properties": {}})),
    ),
    (
        {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
        calls(("f", PARAMETERS), maxItems=1),
    ),
    (
        {"tools": [TOOL], "tool_choice": NAMED, "response_format": {"type": "json_object"}},
        {"json": PARAMETERS},
    ),
]


@pytest.mark.parametrize(("fields", "guided"), GUIDED)
def test_guided_decoding(fields, guided):
    assert build_guided_decoding(chat_request(**fields)) == guided
    assert preprocessed(fields)["sampling_options"].get("guided_decoding") == guided


def test_definitions_of_tools_move_to_the_top_of_the_schema():
    tool = {"function": {"name": "d", "parameters": {"$defs": {"x": {}}, "type": "object"}}}
    schema = build_guided_decoding(chat_request(tools=[tool], tool_choice="required"))
    assert schema == calls(("d", {"type": "object"}), **{"$defs": {"x": {}}})
    assert "$defs" in tool["function"]["parameters"], "the request is left as it is"
    other = {"function": {"name": "o", "parameters": {"$defs": {"x": {"type": "string"}}}}}
    with pytest.raises(RequestError, match=r"tools\[1\].function.parameters.\$defs.x"):
        build_guided_decoding(chat_request(tools=[tool, other], tool_choice="required"))


def test_definitions_of_older_drafts_move_as_well():
    parameters = {"definitions": {"x": {"type": "dict"}}, "$ref": "#/definitions/x"}
    tool = {"function": {"name": "d", "parameters": parameters}}
    schema = build_guided_decoding(chat_request(tools=[tool], tool_choice="required"))
    definitions = {"definitions": {"x": {"type": "object"}}}
    assert schema == calls(("d", {"$ref": "#/definitions/x"}), **definitions)


@pytest.mark.parametrize(
    ("guided", "is_json"),
    [
        (None, False),
        ({"json": {}}, True),
        ({"regex": r"\{\}"}, True),
        ({"regex": "a+"}, False),
        ({"structural_tag": {}}, False),
    ],
)
def test_a_call_is_json_where_its_grammar_is(guided, is_json):
    assert constrains_to_json(guided) is is_json
