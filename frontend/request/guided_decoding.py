"""Guided decoding as Dynamo sends it, for a forward edge without an engine's parsers.

A forced tool call is held to plain JSON: the model's own tool syntax would take an
engine's grammar. `ParserRequest.json_calls` tells the parsers (docs/decisions/0004).
"""

from __future__ import annotations

import copy
from typing import Any

from dynamo.common.utils.guided_json import admits_only_empty_object
from dynamo.frontend.utils import legacy_guided_decoding

from ...parsers.errors import RequestError

Schema = dict[str, Any]
GUIDED_FIELDS = ("guided_json", "guided_regex", "guided_grammar", "guided_choice")
EMPTY_OBJECT = r"\{\}"


def guided_decoding(request: dict[str, Any]) -> dict[str, Any] | None:
    """Return Dynamo's `guided_decoding` for a chat request, None if nothing constrains it.

    Raises `RequestError` for a forced call together with a constraint of the client's.
    """
    forced = _forced_calls(request)
    explicit = legacy_guided_decoding(request)
    if forced is None:
        return explicit or _response_format(request.get("response_format") or {})
    if explicit is not None:
        field = next(name for name in GUIDED_FIELDS if request.get(name))
        raise RequestError(field, request[field], "nothing, where `tool_choice` forces a tool call")
    # A response format is about the message, which a forced call has none of.
    return forced


def _response_format(response_format: dict[str, Any]) -> dict[str, Any] | None:
    match response_format.get("type"):
        case "json_object":
            return {"json": {"type": "object"}}
        case "json_schema":
            return {"json": response_format["json_schema"]["schema"]}
        case "structural_tag":
            return {"structural_tag": response_format}
    return None


def _forced_calls(request: dict[str, Any]) -> dict[str, Any] | None:
    choice, tools = request.get("tool_choice"), request.get("tools")
    if not tools or choice in (None, "none", "auto"):
        return None
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        schema = _parameters(next(tool for tool in tools if tool["function"]["name"] == name))
        # Engines compile this one to a grammar that lets white space run on for ever.
        return {"regex": EMPTY_OBJECT} if admits_only_empty_object(schema) else {"json": schema}
    return {"json": _calls_schema(tools, single=request.get("parallel_tool_calls") is False)}


def _parameters(tool: dict[str, Any]) -> Schema:
    return copy.deepcopy(tool["function"].get("parameters")) or {"type": "object", "properties": {}}


def _calls_schema(tools: list[dict[str, Any]], *, single: bool) -> Schema:
    """Return the schema of an array of calls; definitions move to its top, where `$ref` looks for them."""
    definitions: Schema = {}
    calls = []
    for position, tool in enumerate(tools):
        parameters = _parameters(tool)
        for name, definition in parameters.pop("$defs", {}).items():
            if definitions.setdefault(name, definition) != definition:
                field = f"tools[{position}].function.parameters.$defs.{name}"
                raise RequestError(field, definition, "the same definition as in the other tools")
        named = {"type": "string", "enum": [tool["function"]["name"]]}
        calls.append(
            {
                "properties": {"name": named, "parameters": parameters},
                "required": ["name", "parameters"],
            }
        )
    schema: Schema = {"type": "array", "minItems": 1, "items": {"type": "object", "anyOf": calls}}
    if definitions:
        schema["$defs"] = definitions
    if single:
        schema["maxItems"] = 1
    return schema
