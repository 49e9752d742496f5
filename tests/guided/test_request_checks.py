"""Which constraints of a request are refused; `bad_requests` has the answers of a server."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.base.limits import MAX_SCHEMA_BYTES, MAX_SCHEMAS_BYTES, MAX_TOOL_NAME, MAX_TOOLS
from backedge.guided.guided_request import (
    GUIDED_TEXTS,
    GuidedRequest,
    check_constraints,
    check_schemas,
    decode_request,
    has_schemas,
)

from tests.frontend.chat_requests import TOOL, chat_request

ANY_TAG = {"type": "structural_tag", "format": {"type": "any_text"}}
TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "x"}}
# fields, whether there is anything to check
GOOD = [
    ({}, False),
    ({"tools": []}, False),
    ({"tools": [TOOL]}, True),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, True),
    ({"response_format": {"type": "text"}}, True),
    ({"response_format": TAG}, True),
    ({"guided_json": {}}, True),
    ({"guided_json": "true"}, True),
    ({"guided_regex": "(a|b)+"}, True),
    ({"guided_grammar": 'root ::= "a"'}, True),
    ({"guided_choice": ["a", "b"]}, True),
    ({"guided_json": {}, "guided_whitespace_pattern": "[ ]?"}, True),
]


@pytest.mark.parametrize(("fields", "checked"), GOOD)
def test_good_values_pass(fields, checked):
    request = chat_request(**fields)
    check_schemas(request)
    assert has_schemas(request) is checked


def text_of(size):
    """Return a schema whose JSON has `size` bytes."""
    schema = {"description": ""}
    return {"description": "x" * (size - len('{"description":""}'))} if size else schema


def tools(*sizes):
    return [
        {"type": "function", "function": {"name": f"f{number}", "parameters": text_of(size)}}
        for number, size in enumerate(sizes)
    ]


def test_the_largest_schemas_pass():
    check_schemas(chat_request(tools=tools(MAX_SCHEMA_BYTES)))
    most = MAX_SCHEMAS_BYTES // MAX_SCHEMA_BYTES
    check_schemas(chat_request(tools=tools(*[MAX_SCHEMA_BYTES] * most)))


@pytest.mark.parametrize(
    ("field", "sizes"),
    [
        ("tools[0].function.parameters", [MAX_SCHEMA_BYTES + 1]),
        ("tools", [MAX_SCHEMA_BYTES] * (MAX_SCHEMAS_BYTES // MAX_SCHEMA_BYTES) + [100]),
    ],
)
def test_larger_ones_are_refused(field, sizes):
    with pytest.raises(RequestError) as refused:
        check_schemas(chat_request(tools=tools(*sizes)))
    assert refused.value.field == field


def test_all_guided_texts_are_checked():
    for field in GUIDED_TEXTS:
        with pytest.raises(RequestError, match=field):
            check_schemas(chat_request(**{field: 5}))


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


# field, request
UNFIT: list[tuple[str, dict[str, Any]]] = [
    ("tools", {"tools": [named(str(number)) for number in range(MAX_TOOLS + 1)]}),
    ("tools[0].function.name", {"tools": [named("")]}),
    ("tools[0].function.name", {"tools": [named("x" * (MAX_TOOL_NAME + 1))]}),
    ("tools[1].function.name", {"tools": [named("f"), named("f")]}),
    ("tool_choice", {"tool_choice": "maybe"}),
    ("tool_choice", {"tool_choice": "required"}),
    ("tool_choice", {"tool_choice": named("g"), "tools": [named("f")]}),
    ("guided_regex", {"guided_json": {}, "guided_regex": "a"}),
    ("guided_choice", {"guided_choice": []}),
    ("guided_json", {"tool_choice": "required", "tools": [named("f")], "guided_json": {}}),
    (
        "response_format",
        {"tool_choice": "required", "tools": [named("f")], "response_format": ANY_TAG},
    ),
]


@pytest.mark.parametrize(("field", "fields"), UNFIT, ids=[field for field, _ in UNFIT])
def test_constraints_that_do_not_fit_are_refused(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        check_constraints(decode_request(fields, GuidedRequest))
    assert caught.value.field == field


# request
FIT: list[dict[str, Any]] = [
    {"tools": [named(str(number)) for number in range(MAX_TOOLS)]},
    {"tools": [named("x" * MAX_TOOL_NAME)], "tool_choice": "required"},
    {
        "tools": [named("f")],
        "tool_choice": named("f"),
        "response_format": {"type": "json_object"},
    },
    {"tool_choice": "none", "response_format": ANY_TAG},
]


@pytest.mark.parametrize("fields", FIT, ids=[", ".join(fields) for fields in FIT])
def test_accepted(fields: dict[str, Any]) -> None:
    check_constraints(decode_request(fields, GuidedRequest))
