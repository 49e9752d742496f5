"""Which constraints do not fit each other; `bad_requests` has what a server says of them."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.base.limits import MAX_TOOL_NAME, MAX_TOOLS
from backedge.guided.constraint_rules import check_constraints
from backedge.guided.guided_request import GuidedRequest, decode_request

TAG = {"type": "structural_tag", "format": {"type": "any_text"}}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


# field, request
BAD: list[tuple[str, dict[str, Any]]] = [
    ("tools", {"tools": [tool(str(number)) for number in range(MAX_TOOLS + 1)]}),
    ("tools[0].function.name", {"tools": [tool("")]}),
    ("tools[0].function.name", {"tools": [tool("x" * (MAX_TOOL_NAME + 1))]}),
    ("tools[1].function.name", {"tools": [tool("f"), tool("f")]}),
    ("tool_choice", {"tool_choice": "maybe"}),
    ("tool_choice", {"tool_choice": "required"}),
    ("tool_choice", {"tool_choice": tool("g"), "tools": [tool("f")]}),
    ("guided_regex", {"guided_json": {}, "guided_regex": "a"}),
    ("guided_json", {"tool_choice": "required", "tools": [tool("f")], "guided_json": {}}),
    ("response_format", {"tool_choice": "required", "tools": [tool("f")], "response_format": TAG}),
]


@pytest.mark.parametrize(("field", "fields"), BAD, ids=[field for field, _ in BAD])
def test_refused(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        check_constraints(decode_request(fields, GuidedRequest))
    assert caught.value.field == field


# request
GOOD: list[dict[str, Any]] = [
    {"tools": [tool(str(number)) for number in range(MAX_TOOLS)]},
    {"tools": [tool("x" * MAX_TOOL_NAME)], "tool_choice": "required"},
    {"tools": [tool("f")], "tool_choice": tool("f"), "response_format": {"type": "json_object"}},
    {"guided_choice": [], "guided_regex": "a"},
    {"tool_choice": "none", "response_format": TAG},
]


@pytest.mark.parametrize("fields", GOOD, ids=[", ".join(fields) for fields in GOOD])
def test_accepted(fields: dict[str, Any]) -> None:
    check_constraints(decode_request(fields, GuidedRequest))
