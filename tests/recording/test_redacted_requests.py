"""A redacted request: short names, schemas by their types, nothing that names a token."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.linear_parsers import NONEMPTY
from backedge.recording.redaction import (
    RequestRedactor,
    redact_schema,
)

from tests.recording.redacting import (
    decode,
    for_request,
    redact,
    redactor,
    shorten,
)
from tests.support import (
    NAMES,
    encode,
    params,
)

SCHEMA = {
    "type": "object",
    "title": "secret",
    "description": "secret",
    "properties": {
        "city": {"type": ["string", "null"], "enum": ["secret"], "nullable": True},
        "days": {"type": "integer", "default": 7, "const": 12},
        "kind": {"type": "secret", "examples": ["secret"]},
        "any": True,
        "a/b": {},
        "name": {},
        "/": {},
    },
    "required": ["city", "secret", 5, "name"],
    "anyOf": [
        *({"$ref": "secret"}, {"$ref": "#/$defs/Part"}, "secret", {"$ref": "#"}),
        *({"$ref": "#secret"}, {"$ref": "#/$defs/Secret"}, {"$ref": "#/title/secret"}),
        *({"$ref": "#/anyOf/1"}, {"$ref": "#/anyOf/99"}, {"$ref": "#/properties/a~1b"}),
        *({"$ref": "#/examples/secret"}, {"$ref": "#/%24defs/Part"}, {"$ref": "#/properties/~1"}),
    ],
    "examples": {"secret": {}},
    "$defs": {"Part": {"type": "string", "pattern": "secret"}},
    "additionalProperties": {"const": {"secret": [1.5, "secret"]}},
}
REDACTED = {
    "type": "object",
    "properties": {
        "N2": {"type": ["string", "null"], "nullable": True},
        "N3": {"type": "integer"},
        "N4": {},
        "N5": True,
        "N6": {},
        "name": {},
        "/": {},
    },
    "anyOf": [
        *({}, {"$ref": "#/$defs/N9"}, {}, {"$ref": "#"}, {}, {}, {}),
        *({"$ref": "#/anyOf/1"}, {}, {"$ref": "#/properties/N6"}, {}),
        *({"$ref": "#/$defs/N9"}, {"$ref": "#/properties/~1"}),
    ],
    "$defs": {"N9": {"type": "string"}},
    "additionalProperties": {"type": "object"},
    "required": ["N2", "name"],
}


def test_names_become_short_ones_everywhere() -> None:
    """But those that the model's formats look for."""
    function = {"name": "zebra", "parameters": SCHEMA, "description": "secret", "strict": True}
    tools: list[Any] = [{"type": "function", "function": function}, {"secret": "secret"}]
    choice = {"type": "function", "function": {"name": "zebra"}}
    request = params(parser=ParserRequest(tools=tools, tool_choice=choice))
    redacting = RequestRedactor(redactor(), request, NAMES)
    named = {"type": "function", "function": {"name": "N1"}}
    assert redacting.redact_params(request).parser == ParserRequest(
        tools=[
            {"type": "function", "function": {"name": "N1", "parameters": REDACTED}},
            {"type": "function"},
        ],
        tool_choice=named,
    )
    text = '{"name": "zebra", "arguments": {"city": "a city", "name": 5, "days": 7, "a/b": 2}}'
    assert shorten(decode(redact(redacting, encode(text)))) == (
        '{"name": "N1", "arguments": {"N2": "x N2", "name": 1, "N3": 1, "N6": 1}}'
    )


def test_what_is_no_schema_is_nothing() -> None:
    assert redact_schema(False, {}) is False
    assert redact_schema("secret", {}) == {}


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
    assert redact_schema({keyword: found}, {}) == ({} if types is None else {"type": types})


def test_nothing_is_asked_for_that_names_tokens() -> None:
    request = params(
        logprobs=3,
        return_token_ids=True,
        return_tokens_as_token_ids=True,
        stop=["END"],
        parser=ParserRequest(
            chat_template_kwargs={"thinking": True, "who": "secret", "zebra": 2, NONEMPTY: True},
            tool_choice="secret",
        ),
    )
    redacted = for_request(stop=["END"]).redact_params(request)
    assert redacted == params(
        stop=["N1"],
        parser=ParserRequest(
            chat_template_kwargs={"thinking": True, NONEMPTY: True}, tool_choice="required"
        ),
    )
    assert not redacted.annotates_tokens
