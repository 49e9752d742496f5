"""A request's constraints with types; `test_chat_request` has those of whole chat requests."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.guided.guided_request import GuidedRequest, decode_request

NAMED = {"type": "function", "function": {"name": "f"}}
# tool_choice, whether it forces a call, the function that it names
CHOICES: list[tuple[Any, bool, str | None]] = [
    (None, False, None),
    ("none", False, None),
    ("auto", False, None),
    ("required", True, None),
    (NAMED, True, "f"),
]


@pytest.mark.parametrize(("choice", "forces", "name"), CHOICES)
def test_tool_choices(choice: Any, forces: bool, name: str | None) -> None:
    raw = {"tool_choice": choice}
    request = decode_request(raw, GuidedRequest)
    assert (request.forces_call, request.named_function) == (forces, name)
    assert request.raw is raw


# field, request
BAD: list[tuple[str, dict[str, Any]]] = [
    ("tools[0].type", {"tools": [{**NAMED, "type": "custom"}]}),
    ("tools[0].function", {"tools": [{"type": "function"}]}),
    ("response_format.type", {"response_format": {"type": "xml"}}),
    ("parallel_tool_calls", {"parallel_tool_calls": "no"}),
]


@pytest.mark.parametrize(("field", "fields"), BAD, ids=[field for field, _ in BAD])
def test_a_wrong_value_names_its_field(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        decode_request(fields, GuidedRequest)
    assert caught.value.field == field
