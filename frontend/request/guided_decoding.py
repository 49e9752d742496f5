"""Guided decoding in Dynamo's form, for the preprocessors without an engine's parsers.

A forced tool call is held to plain JSON, unless `CallPolicy` finds a grammar of the model's own
syntax. `ParserRequest.json_calls` tells the parsers (docs/decisions/0004).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import msgspec
from dynamo.common.utils.guided_json import admits_only_empty_object
from dynamo.frontend.utils import legacy_guided_decoding

from ...parsers.errors import RequestError
from ...parsers.json_types import JsonObject
from .chat_request import ChatRequest, Tool
from .tool_schemas import standard_parameters

EMPTY_OBJECT = r"\{\}"


class _Grammar(msgspec.Struct):
    """What Dynamo's `guided_decoding` says of a forced call's syntax."""

    json: object = None
    regex: object = None


def build_guided_decoding(request: ChatRequest) -> JsonObject | None:
    """Return Dynamo's `guided_decoding`; None for an unconstrained answer.

    `check_request` has made sure that there is one constraint at most. A response format is about
    the message, and a forced call leaves the message empty.
    """
    explicit: JsonObject | None = legacy_guided_decoding(request.raw)
    return _constrain_forced_calls(request) or explicit or _constrain_response(request)


def constrains_to_json(guided_decoding: JsonObject | None) -> bool:
    """Whether the grammar of a forced call is its JSON schema, not the model's own syntax.

    A regular expression is Dynamo's grammar for a named call without arguments.
    """
    grammar = msgspec.convert(guided_decoding or {}, _Grammar)
    return grammar.json is not None or grammar.regex == EMPTY_OBJECT


def _constrain_response(request: ChatRequest) -> JsonObject | None:
    response_format = request.response_format
    match response_format and response_format.type:
        case "json_object":
            return {"json": {"type": "object"}}
        case "json_schema" if response_format and response_format.json_schema:
            return {"json": response_format.json_schema.schema}
        case "structural_tag":
            return {"structural_tag": request.raw["response_format"]}
    return None


def _constrain_forced_calls(request: ChatRequest) -> JsonObject | None:
    if not request.tools or not request.forces_call:
        return None
    if (name := request.named_function) is not None:
        schema = _copy_parameters(
            next(tool for tool in request.tools if tool.function.name == name)
        )
        # Engines compile the schema of an empty object to a grammar with endless white space.
        return {"regex": EMPTY_OBJECT} if admits_only_empty_object(schema) else {"json": schema}
    return {"json": _build_calls_schema(request.tools, single=request.parallel_tool_calls is False)}


def _copy_parameters(tool: Tool) -> JsonObject:
    """Return a tool's schema in the words that engines know, for a grammar."""
    parameters = tool.function.parameters
    if not parameters:
        return {"type": "object", "properties": {}}
    return copy.deepcopy(standard_parameters(parameters))


def _build_calls_schema(tools: Sequence[Tool], *, single: bool) -> JsonObject:
    """Return the schema of an array of calls.

    Definitions move to its top, where `$ref` looks for them.
    """
    definitions: JsonObject = {}
    calls = []
    for position, tool in enumerate(tools):
        parameters = _copy_parameters(tool)
        _move_definitions(parameters, definitions, f"tools[{position}].function.parameters")
        properties = {
            "name": {"type": "string", "enum": [tool.function.name]},
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
    """Move the definitions of one tool to those of all, by the keyword that holds them.

    field: the JSON path of `parameters`.
    """
    for word in ("$defs", "definitions"):
        for name, definition in parameters.pop(word, {}).items():
            if definitions.setdefault(word, {}).setdefault(name, definition) != definition:
                allowed = "the same definition as in the other tools"
                raise RequestError(f"{field}.{word}.{name}", definition, allowed)
