"""Parameters in a redacted recording: names, types and switches."""

from __future__ import annotations

from backedge.parsers.base import ParserRequest
from backedge.recording.redacted_params import redact_params, redact_schema, redact_tool

from tests.support import params

SCHEMA = {
    "type": "object",
    "title": "secret",
    "description": "secret",
    "properties": {
        "city": {"type": ["string", "null"], "enum": ["secret", "Secret", None], "minLength": 1},
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
        "city": {"type": ["string", "null"], "enum": ["x", None]},
        "days": {"type": "integer", "const": 1},
        "kind": {},
        "any": True,
    },
    "anyOf": [{"$ref": "#/$defs/Part"}, {}],
    "additionalProperties": {"const": {}},
    "required": ["city"],
}


def test_a_schema_keeps_names_and_types() -> None:
    assert redact_schema(SCHEMA, "x") == REDACTED
    assert redact_schema(False, "x") is False
    assert redact_schema("secret", "x") == {}


def test_a_tool_loses_its_description() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "secret", "strict": True}}
    assert redact_tool(tool, "x") == {"type": "function", "function": {"name": "f"}}
    assert redact_tool({"secret": "secret"}, "x") == {"type": "function"}


def test_values_of_a_type_stay_different_from_those_of_another() -> None:
    values = [1, 2, 1.5, "a", "b", [], None]
    assert redact_schema({"enum": values}, "q") == {"enum": [1, 1.5, "q", [], None]}


def test_nothing_is_asked_for_that_names_tokens() -> None:
    request = params(
        logprobs=3,
        return_token_ids=True,
        return_tokens_as_token_ids=True,
        stop=["END"],
        parser=ParserRequest(chat_template_kwargs={"thinking": True, "who": "secret", "n": 2}),
    )
    redacted = redact_params(request, "x")
    assert redacted == params(
        stop=["END"], parser=ParserRequest(chat_template_kwargs={"thinking": True, "n": 2})
    )
    assert not redacted.annotates_tokens
