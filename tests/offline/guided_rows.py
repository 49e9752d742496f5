"""Rows whose answers are held to something that the example model would not write by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema
from backedge.offline import GenerationOptions, TextGenerationRequest

from tests.offline.batches import ask
from tests.support import TRANSCRIPTS

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "n": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["city", "n"],
    "additionalProperties": False,
}
TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "abc"}}
WEATHER = TRANSCRIPTS["named_choice"]
ARGUMENTS = WEATHER["tools"][0]["function"]["parameters"]
OPTIONS = GenerationOptions(temperature=0, max_new_tokens=120)


def fits(schema: dict[str, Any]) -> Callable[[str], bool]:
    """Return whether a text is JSON of this schema."""
    return lambda text: jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))


def matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


@dataclass(frozen=True)
class GuidedCase:
    """fields: of the request. is_valid: whether a text is what they allow; None for no answer."""

    name: str
    fields: dict[str, Any]
    is_valid: Callable[[str], bool] | None

    @property
    def row(self) -> TextGenerationRequest:
        return ask("Say hello.", id=self.name, options=OPTIONS, **self.fields)


CASES = [
    GuidedCase(
        "schema",
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        fits(SCHEMA),
    ),
    GuidedCase("guided_json", {"guided_json": json.dumps(SCHEMA)}, fits(SCHEMA)),
    GuidedCase("regex", {"guided_regex": "[a-c]{3}"}, matches("[a-c]{3}")),
    GuidedCase("choice", {"guided_choice": ["yes", 'n"o']}, matches('yes|n"o')),
    GuidedCase("grammar", {"guided_grammar": 'root ::= "x" [0-9] "y"'}, matches("x[0-9]y")),
    GuidedCase("tag", {"response_format": TAG}, matches("abc")),
    GuidedCase("free", {}, matches("Hello! How can I help you today\\?")),
    GuidedCase(
        "forced call without a parser",
        {"tools": WEATHER["tools"], "tool_choice": WEATHER["tool_choice"]},
        fits(ARGUMENTS),
    ),
    GuidedCase("no such definition", {"guided_json": {"$ref": "#/$defs/none"}}, None),
    GuidedCase("no type", {"guided_json": {"type": "nonsense"}}, None),
]
