"""Which fields of a row constrain its answer, and its grammar."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.base.limits import MAX_SCHEMA_BYTES
from backedge.offline import GenerationOptions, TextGenerationRequest
from backedge.offline.preparation import (
    build_grammar,
    read_request,
)
from backedge.parsers.linear_parsers import Vocabulary

from tests.offline.batches import PARSED, ask

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FUNCTION = {"name": "f", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
STRICT = {"type": "function", "function": {**FUNCTION, "strict": True}}
NAMED = {"type": "function", "function": {"name": "f"}}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
PLAIN, PARSES = GenerationOptions(), GenerationOptions(**PARSED)
HERMES = GenerationOptions(message=True, tool_call_parser="hermes")
AUTO = dataclasses.replace(HERMES, structural_tag_scope="auto")
# A grammar cannot skip this reasoning, and need not in front of calls that may come anywhere.
NO_TAGS = dataclasses.replace(HERMES, reasoning_parser="minimax_m2_append_think")
PYTHONIC = GenerationOptions(message=True, tool_call_parser="pythonic")
NO_MARKERS = Vocabulary({}, frozenset(), lambda _: "")

# options, fields, what asks for the grammar, its kind, whether calls are plain JSON
GRAMMARS: list[tuple[GenerationOptions, dict[str, Any], str | None, str | None, bool]] = [
    (PLAIN, {}, None, None, False),
    (PLAIN, {"tools": [TOOL]}, None, None, False),
    (PLAIN, {"tools": [STRICT]}, None, None, False),
    (HERMES, {"tools": [STRICT]}, "tools, whose calls", "structural_tag", False),
    (HERMES, {"tools": [TOOL]}, "tools, whose calls", "structural_tag", False),
    (AUTO, {"tools": [TOOL]}, None, None, False),
    (AUTO, {"tools": [STRICT]}, "tools, whose calls", "structural_tag", False),
    (NO_TAGS, {"tools": [TOOL]}, "tools, whose calls", "structural_tag", False),
    (HERMES, {"tools": [STRICT], "tool_choice": "none"}, None, None, False),
    (PLAIN, {"tools": [TOOL], "tool_choice": "required"}, "'required'", "json", True),
    (HERMES, {"tools": [TOOL], "tool_choice": "required"}, "'required'", "structural_tag", False),
    (PYTHONIC, {"tools": [TOOL], "tool_choice": NAMED}, "tool_choice={", "structural_tag", False),
    (PLAIN, {"response_format": {"type": "text"}}, None, None, False),
    (PLAIN, {"response_format": JSON_SCHEMA}, "response_format", "json", False),
    (PARSES, {"response_format": JSON_SCHEMA}, "response_format", "structural_tag", False),
    (PLAIN, {"guided_json": '{"type": "object"}'}, "guided_json", "json", False),
    (PLAIN, {"guided_json": True}, "guided_json", "json", False),
    (PLAIN, {"guided_choice": ["a"]}, "guided_choice", "choice", False),
]


@pytest.mark.parametrize(("options", "fields", "asks", "kind", "in_json"), GRAMMARS)
def test_grammars(
    options: GenerationOptions,
    fields: dict[str, Any],
    asks: str | None,
    kind: str | None,
    in_json: bool,
) -> None:
    request = ask("Hi", **fields)
    read = read_request(request)
    described = read.describe(options)
    assert (described is None) is (asks is None)
    assert (asks or "") in (described or "")
    guided = read.guided
    if guided is None:
        assert kind is None
        return
    grammar = build_grammar(guided, options, NO_MARKERS, lambda: True)
    if grammar is None:
        assert kind is None
        return
    assert list(grammar.guided) == [kind]
    assert grammar.json_calls is in_json
    assert isinstance(grammar.guided[kind or ""], dict | list)


def test_thoughts_are_part_of_the_grammar_only_where_the_model_thinks() -> None:
    guided = read_request(ask("Hi", response_format=JSON_SCHEMA)).guided
    assert guided is not None
    thinks = build_grammar(guided, PARSES, NO_MARKERS, lambda: True)
    answers = build_grammar(guided, PARSES, NO_MARKERS, lambda: False)
    assert thinks is not None
    assert answers is not None
    assert "</think>" in str(thinks.guided)
    assert thinks.answer == answers.answer == answers.guided == {"json": SCHEMA}


DEEP: dict[str, Any] = {}
for _ in range(200):
    DEEP = {"items": DEEP}
LARGE = {"description": "x" * MAX_SCHEMA_BYTES}
# options, fields, the field of the error
BAD: list[tuple[GenerationOptions, dict[str, Any], str]] = [
    (PLAIN, {"guided_json": DEEP}, "guided_json"),
    (PLAIN, {"guided_json": LARGE}, "guided_json"),
    (PLAIN, {"guided_json": "no JSON"}, "guided_json"),
    (PLAIN, {"guided_json": {"type": "nonsense"}}, "guided_json.type"),
    (PLAIN, {"guided_regex": "(" * 100 + ")" * 100}, "guided_regex"),
    (PLAIN, {"guided_grammar": "x" * 70_000}, "guided_grammar"),
    (PLAIN, {"response_format": {"type": "xml"}}, "response_format.type"),
    (PLAIN, {"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    (PLAIN, {"guided_regex": "a", "guided_json": {}}, "guided_regex"),
    (PLAIN, {"tool_choice": "required"}, "tool_choice"),
    (PLAIN, {"tools": [TOOL], "tool_choice": {"function": {"name": "g"}}}, "tool_choice"),
    (PLAIN, {"tools": [TOOL, TOOL]}, "tools[1].function.name"),
    (
        PLAIN,
        {
            "tools": [{"type": "function", "function": {"name": "f", "parameters": DEEP}}],
            "tool_choice": "required",
        },
        "tools[0].function.parameters",
    ),
    (
        GenerationOptions(message=True, reasoning_parser="minimax_m2_append_think"),
        {"response_format": JSON_SCHEMA},
        "reasoning_parser",
    ),
]


def prepare(request: TextGenerationRequest, options: GenerationOptions) -> None:
    read = read_request(request)
    assert read.describe(options) is None or read.error is None
    if read.error is not None:
        raise read.error
    assert read.guided is not None
    build_grammar(read.guided, options, NO_MARKERS, lambda: False)


@pytest.mark.parametrize(("options", "fields", "field"), BAD, ids=[field for *_, field in BAD])
def test_refused(options: GenerationOptions, fields: dict[str, Any], field: str) -> None:
    request = ask("Hi", **fields)
    with pytest.raises(RequestError) as caught:
        prepare(request, options)
    assert caught.value.field == field
