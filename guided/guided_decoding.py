"""Guided decoding in Dynamo's form, for back ends without an engine's own preprocessor.

A forced tool call is constrained to plain JSON, unless `CallPolicy` finds a grammar of the model's
own syntax. `ParserRequest.json_calls` tells the parsers (docs/decisions/0004).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from ..base.errors import RequestError
from ..base.json_types import JsonObject
from .guided_request import GuidedRequest, Tool
from .standard_schema import standardize

EMPTY_OBJECT = r"\{\}"
# At most one of these constrains an answer.
GUIDED_FIELDS = ("guided_json", "guided_regex", "guided_grammar", "guided_choice")
# Keywords without any requirement for an object without properties.
_SAYS_NOTHING = frozenset(
    "title description $comment default examples deprecated readOnly writeOnly".split()
)

Standardize: TypeAlias = Callable[[JsonObject], JsonObject]
"""Returns a tool's schema in the terms that engines know; the result is not modified."""


class _Grammar(msgspec.Struct):
    """The part of Dynamo's `guided_decoding` that shows a forced call's syntax."""

    json: object = None
    regex: object = None


def build_guided_decoding(
    request: GuidedRequest, standardize: Standardize = standardize
) -> JsonObject | None:
    """Return Dynamo's `guided_decoding`; None for an unconstrained answer.

    `check_constraints` has ensured that there is at most one constraint. A response format
    applies to the message, which a forced call leaves empty.
    """
    return (
        _constrain_forced_calls(request, standardize)
        or find_explicit(request)
        or _constrain_response(request)
    )


def find_explicit(request: GuidedRequest) -> JsonObject | None:
    """Return the constraint of the `guided_` fields; an empty list of choices does not count."""
    for field in GUIDED_FIELDS:
        value = getattr(request, field)
        if value is None or value == []:
            continue
        found: JsonObject = {field.removeprefix("guided_"): value}
        if request.guided_whitespace_pattern is not None:
            found["whitespace_pattern"] = request.guided_whitespace_pattern
        return found
    return None


def constrains_to_json(guided_decoding: JsonObject | None) -> bool:
    """Whether the grammar of a forced call is its JSON schema, not the model's own syntax.

    A regular expression is Dynamo's grammar for a named call without arguments.
    """
    grammar = msgspec.convert(guided_decoding or {}, _Grammar)
    return grammar.json is not None or grammar.regex == EMPTY_OBJECT


def _constrain_response(request: GuidedRequest) -> JsonObject | None:
    response_format = request.response_format
    match response_format and response_format.type:
        case "json_object":
            return {"json": {"type": "object"}}
        case "json_schema" if response_format and response_format.json_schema:
            return {"json": response_format.json_schema.schema}
        case "structural_tag":
            return {"structural_tag": request.raw["response_format"]}
    return None


def _constrain_forced_calls(request: GuidedRequest, standardize: Standardize) -> JsonObject | None:
    if not request.tools or not request.forces_call:
        return None
    name = request.named_function
    tools = [tool for tool in request.tools if name in (None, tool.function.name)]
    schemas = [_copy_parameters(tool, standardize) for tool in tools]
    if name is not None:
        [schema] = schemas
        # Engines compile the schema of an empty object to a grammar with endless white space.
        return {"regex": EMPTY_OBJECT} if admits_only_empty_object(schema) else {"json": schema}
    names = [tool.function.name for tool in tools]
    single = request.parallel_tool_calls is False
    return {"json": _build_calls_schema(names, schemas, single=single)}


def admits_only_empty_object(schema: JsonObject) -> bool:
    """Whether a schema obviously accepts `{}` and nothing else."""
    plain = {word: value for word, value in schema.items() if word not in _SAYS_NOTHING}
    least, most = plain.pop("minProperties", 0), plain.pop("maxProperties", 0)
    return (
        plain.pop("type", None) == "object"
        and plain.pop("additionalProperties", None) is False
        and plain.pop("properties", {}) == {}
        and plain.pop("required", []) == []
        and type(least) is int
        and least == 0
        and type(most) is int
        and most >= 0
        and not plain
    )


def _copy_parameters(tool: Tool, standardize: Standardize) -> JsonObject:
    """Return a tool's schema in the terms that engines know, for a grammar."""
    parameters = tool.function.parameters
    if not parameters:
        return {"type": "object", "properties": {}}
    return copy.deepcopy(standardize(parameters))


def _build_calls_schema(
    names: Sequence[str], schemas: Sequence[JsonObject], *, single: bool
) -> JsonObject:
    """Return the schema of an array of calls. schemas: of the functions; modified.

    Definitions move to the top, where `$ref` expects them.
    """
    definitions: JsonObject = {}
    calls = []
    for position, (name, parameters) in enumerate(zip(names, schemas, strict=True)):
        _move_definitions(parameters, definitions, f"tools[{position}].function.parameters")
        properties = {
            "name": {"type": "string", "enum": [name]},
            "parameters": parameters,
        }
        calls.append({"properties": properties, "required": ["name", "parameters"]})
    schema: JsonObject = {
        "type": "array",
        "minItems": 1,
        "items": {"type": "object", "anyOf": calls},
    }
    schema |= definitions
    if single:
        schema["maxItems"] = 1
    return schema


def _move_definitions(parameters: JsonObject, definitions: JsonObject, field: str) -> None:
    """Move one tool's definitions to the common ones, by the keyword that holds them.

    field: the JSON path of `parameters`.
    """
    for word in ("$defs", "definitions"):
        for name, definition in parameters.pop(word, {}).items():
            if definitions.setdefault(word, {}).setdefault(name, definition) != definition:
                where = f"{field}.{word}.{name}"
                raise RequestError(where, "must be the same definition in all tools")
