"""Requests that are wrong, and the field that is named."""

import pytest
from backedge.base.errors import RequestError
from backedge.frontend.request.chat_request import decode_chat_request
from backedge.frontend.request.tool_schema_cache import check_request_schemas as check_schemas
from backedge.frontend.request.validation import check_request

USER = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def tool(**function):
    return {"type": "function", "function": {"name": "f", **function}}


def json_schema(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


# field, request
BAD = [
    ("messages[0].content", {"messages": [{"role": "user", "content": []}]}),
    ("messages[1].content", {"messages": [*USER, {"role": "assistant"}]}),
    ("min_tokens", {"min_tokens": 10, "max_tokens": 5}),
    ("min_tokens", {"min_tokens": 10, "max_completion_tokens": 5}),
    ("top_logprobs", {"top_logprobs": 2}),
    ("top_logprobs", {"top_logprobs": 2, "logprobs": False}),
    ("stop[1]", {"stop": ["a", ""]}),
    ("stop", {"stop": ["a"] * 1025}),
    ("stop", {"stop": ["a" * 100_001]}),
    ("tools[0].function.parameters.type", {"tools": [tool(parameters={"type": "nonsense"})]}),
    (
        "tools[1].function.parameters.properties",
        {"tools": [TOOL, tool(name="g", parameters={"properties": 5})]},
    ),
    (
        "tools[0].function.parameters.properties.a.items[0].type",
        {"tools": [tool(parameters={"properties": {"a": {"items": [{"type": "nonsense"}]}}})]},
    ),
    (
        "tools[0].function.parameters.properties.a.required",
        {"tools": [tool(parameters={"properties": {"a": {"required": 5}}})]},
    ),
    ("tools[1].function.name", {"tools": [TOOL, TOOL]}),
    ("tool_choice", {"tool_choice": "required"}),
    (
        "tool_choice",
        {"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [TOOL]},
    ),
    (
        "response_format.json_schema.schema.type",
        {"response_format": json_schema({"type": "nonsense"})},
    ),
    ("guided_json", {"guided_json": 5}),
    ("guided_json", {"guided_json": "no json"}),
    ("guided_json.type", {"guided_json": '{"type": "nonsense"}'}),
    ("logit_bias", {"logit_bias": {"5": -1}}),
]
GOOD = [
    {},
    {"logit_bias": {}},
    {"min_tokens": 5, "max_tokens": 5},
    {"logprobs": True, "top_logprobs": 2},
    {"top_logprobs": 0},
    {"stop": ["a", "b"]},
    {"stop": "a"},
    {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"tools": [tool()], "tool_choice": "required"},
    {"tools": [tool(parameters={"type": "dict", "properties": {"a": {"type": "float"}}})]},
    {"tools": [tool(parameters={"properties": {"a": {"type": "any", "required": True}}})]},
    {"response_format": {"type": "json_object"}},
    {"response_format": json_schema({"type": "object"})},
    {"guided_json": '{"type": "object"}'},
    {
        "messages": [
            *USER,
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
            {"role": "assistant", "reasoning_content": ["a", "b"]},
            {"role": "user", "content": ["a", {"type": "text", "text": "b"}, {"type": "other"}]},
            {"role": "tool", "content": "x"},
        ]
    },
]


def check(request):
    decoded = decode_chat_request({"model": "m", **request})
    check_request(decoded)
    check_schemas(decoded)


@pytest.mark.parametrize(("field", "request_"), BAD)
def test_bad_values_are_named(field, request_):
    with pytest.raises(RequestError) as caught:
        check({"messages": USER, **request_})
    assert caught.value.field == field
    assert f"`{field}`" in str(caught.value)


@pytest.mark.parametrize("request_", GOOD)
def test_good_values_pass(request_):
    check({"messages": USER, **request_})
