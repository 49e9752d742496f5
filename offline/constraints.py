"""The grammar of a row's answer, by the same checks and policy as in servers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ..base.errors import RequestError
from ..base.json_types import JsonObject
from ..guided.call_policy import CallPolicy, constrains_to_json, find_call_tags
from ..guided.guided_request import (
    GUIDED_FIELDS,
    GuidedRequest,
    check_constraints,
    check_schemas,
    decode_request,
)
from ..guided.reasoned_answer import ReasoningTags, after_reasoning, read_reasoning_tags
from ..parsers.base import ParserNames
from ..parsers.linear_parsers import Vocabulary, spell_markers
from ..parsers.parser_lookup import reasoning_format
from .contracts import GenerationOptions, TextGenerationRequest

# The fields besides tools that constrain an answer.
CONSTRAINTS = ("response_format", *GUIDED_FIELDS)
FIELDS = ("tools", "tool_choice", "parallel_tool_calls", *CONSTRAINTS)


class Grammar(NamedTuple):
    """The grammar of an answer, in Dynamo's form of guided decoding: one kind, and its value.

    guided: what the engine gets. answer: the same without the reasoning before it.
    json_calls: as in `ParserRequest`.
    """

    guided: JsonObject
    answer: JsonObject
    json_calls: bool


def read_names(options: GenerationOptions) -> ParserNames:
    """Return the parsers of a row; empty if its message is not parsed."""
    if not options.message:
        return ParserNames()
    return ParserNames(options.tool_call_parser, options.reasoning_parser)


class ReadRequest(NamedTuple):
    """A request with the constraints on its answer, which are read once.

    guided: None if nothing constrains the answer. error: why the constraints are rejected.
    """

    request: TextGenerationRequest
    guided: GuidedRequest | None = None
    error: RequestError | None = None

    def describe(self, options: GenerationOptions) -> str | None:
        """Return the field that needs a grammar, in words; None if nothing does."""
        guided = self.guided
        if guided is None or not _find_policy(read_names(options)).constrains(guided):
            return None
        if guided.forces_call:
            return f"tool_choice={self.request.tool_choice!r}"
        given = [name for name in CONSTRAINTS if getattr(guided, name) is not None]
        return given[0] if given else "tools whose calls are `strict`, or not parallel"


def read_request(request: TextGenerationRequest) -> ReadRequest:
    """Read the constraints of a request, or the error that its row will have."""
    found = {name: getattr(request, name, None) for name in FIELDS}
    raw = {name: value for name, value in found.items() if value is not None}
    if raw.keys() <= {"parallel_tool_calls"}:
        return ReadRequest(request)
    try:
        guided = decode_request(raw, GuidedRequest)
        check_constraints(guided)
    except RequestError as error:
        return ReadRequest(request, error=error)
    return ReadRequest(request, guided)


def build_grammar(
    guided: GuidedRequest,
    names: ParserNames,
    vocabulary: Vocabulary,
    begins_with_reasoning: Callable[[], bool],
) -> Grammar | None:
    """Return the grammar of a row; None for an unconstrained answer.

    guided: from `read_request`. begins_with_reasoning: called if there is a reasoning parser.
    Raises `RequestError` for a schema, expression or grammar that is invalid, too large or too
    deep, and for a reasoning parser whose reasoning a grammar cannot skip.
    """
    policy = _find_policy(names)
    if not policy.constrains(guided):
        return None
    check_schemas(guided)
    answer = policy.constrain(guided)
    if answer is None:
        return None
    if "json" in answer:
        answer = {"json": _read_schema(answer["json"])}
    json_calls = guided.forces_call and constrains_to_json(answer)
    if names.reasoning is None:
        return Grammar(answer, answer, json_calls)
    tags = _find_reasoning(names.reasoning, vocabulary)
    found = after_reasoning(answer, tags, opened=begins_with_reasoning())
    return Grammar(found, answer, json_calls)


def _read_schema(schema: object) -> object:
    """Return a schema, given as JSON or text, as JSON; {} for true, which accepts everything."""
    read = msgspec.json.decode(schema) if isinstance(schema, str) else schema
    return {} if read is True else read


@functools.lru_cache(maxsize=64)
def _find_policy(names: ParserNames) -> CallPolicy:
    """Return the policy for these parsers: `auto` is unconstrained unless a tool is strict.

    Reasoning is part of the grammar here, so forced calls have room for it.
    """
    return CallPolicy(call_tags=find_call_tags(names))


def _find_reasoning(name: str, vocabulary: Vocabulary) -> ReasoningTags:
    format_ = reasoning_format(name)
    tags = None
    if format_ is not None:
        tags = read_reasoning_tags(spell_markers(format_, vocabulary.ids))
    if tags is None:
        problem = (
            f"must not be {name!r} for an answer that a grammar constrains: a grammar cannot find "
            "the end of this format's reasoning"
        )
        raise RequestError("reasoning_parser", problem)
    return tags
