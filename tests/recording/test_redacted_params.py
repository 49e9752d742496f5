"""Parameters in a redacted recording: names, types and switches."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.parsers.base import ParserRequest
from backedge.recording.redacted_params import redact_params, redact_schema, redact_tool

from tests.support import params

SCHEMA = {
    "type": "object",
    "title": "secret",
    "description": "secret",
    "properties": {
        "city": {"type": ["string", "null"], "enum": ["secret"], "nullable": True},
        "days": {"type": "integer", "default": 7, "const": 12},
        "kind": {"type": "secret", "examples": ["secret"]},
        "any": True,
    },
    "required": ["city"],
    "anyOf": [{"$ref": "#/$defs/Part"}, "secret"],
    "additionalProperties": {"const": {"secret": [1.5, "secret"]}},
}
REDACTED = {
    "type": "object",
    "properties": {
        "city": {"type": ["string", "null"], "nullable": True},
        "days": {"type": "integer"},
        "kind": {},
        "any": True,
    },
    "anyOf": [{"$ref": "#/$defs/Part"}, {}],
    "additionalProperties": {"type": "object"},
    "required": ["city"],
}


def test_a_schema_keeps_names_and_types() -> None:
    assert redact_schema(SCHEMA) == REDACTED
    assert redact_schema(False) is False
    assert redact_schema("secret") == {}


def test_a_tool_loses_its_description() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "secret", "strict": True}}
    assert redact_tool(tool) == {"type": "function", "function": {"name": "f"}}
    assert redact_tool({"secret": "secret"}) == {"type": "function"}


VALUES = {
    ("enum", ("secret", "other")): "string",
    ("enum", (1, "secret", None, 2.5, True, ())): [
        *("integer", "string", "null", "number", "boolean", "array"),
    ],
    ("const", "secret"): "string",
    ("const", None): "null",
    ("enum", ()): None,
}


@pytest.mark.parametrize(("given", "types"), VALUES.items())
def test_values_become_their_types(given: tuple[str, Any], types: object) -> None:
    keyword, value = given
    found = [list(one) if one == () else one for one in value] if keyword == "enum" else value
    assert redact_schema({keyword: found}) == ({} if types is None else {"type": types})


def test_nothing_is_asked_for_that_names_tokens() -> None:
    request = params(
        logprobs=3,
        return_token_ids=True,
        return_tokens_as_token_ids=True,
        stop=["END"],
        parser=ParserRequest(chat_template_kwargs={"thinking": True, "who": "secret", "n": 2}),
    )
    redacted = redact_params(request)
    assert redacted == params(
        stop=["END"], parser=ParserRequest(chat_template_kwargs={"thinking": True, "n": 2})
    )
    assert not redacted.annotates_tokens
