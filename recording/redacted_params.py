"""The parameters of a request without words: names, types and switches stay."""

from __future__ import annotations

import msgspec

from ..parsers.json_types import JsonObject
from ..postprocess.messages import PostprocessParams
from .kept_text import LISTED_SCHEMAS, NAMED_SCHEMAS, SINGLE_SCHEMAS, TYPES

NUMBER, FRACTION = 1, 1.5
_VALUES = ("enum", "const")


def redact_params(params: PostprocessParams, letter: str) -> PostprocessParams:
    """Return `params` as a recording may hold them.

    letter: stands for every text. Stop strings stay. Logprobs and token ids of deltas are not
    asked for, since the tokens are others.
    """
    parser = params.parser
    return msgspec.structs.replace(
        params,
        logprobs=None,
        return_token_ids=False,
        return_tokens_as_token_ids=False,
        parser=msgspec.structs.replace(
            parser,
            tools=[redact_tool(tool, letter) for tool in parser.tools],
            chat_template_kwargs={
                name: value
                for name, value in parser.chat_template_kwargs.items()
                if value is None or isinstance(value, bool | int | float)
            },
        ),
    )


def redact_tool(tool: JsonObject, letter: str) -> JsonObject:
    """Return a tool with its name and the shape of its schema."""
    function = tool.get("function")
    if not isinstance(function, dict):
        return {"type": "function"}
    kept: JsonObject = {"name": function.get("name")}
    if "parameters" in function:
        kept["parameters"] = redact_schema(function["parameters"], letter)
    return {"type": "function", "function": kept}


def redact_schema(schema: object, letter: str) -> object:
    """Return a JSON schema with names and types alone; values have their type, not their text."""
    if not isinstance(schema, dict):
        return schema if isinstance(schema, bool) else {}
    kept = _keep_types(schema)
    for keyword in NAMED_SCHEMAS:
        if isinstance(found := schema.get(keyword), dict):
            kept[keyword] = {name: redact_schema(part, letter) for name, part in found.items()}
    for keyword in LISTED_SCHEMAS:
        if isinstance(found := schema.get(keyword), list):
            kept[keyword] = [redact_schema(part, letter) for part in found]
    for keyword in SINGLE_SCHEMAS:
        if keyword in schema:
            kept[keyword] = redact_schema(schema[keyword], letter)
    for keyword in _VALUES:
        if keyword in schema:
            kept[keyword] = _redact_value(schema[keyword], letter)
    return kept


def _keep_types(schema: JsonObject) -> JsonObject:
    """Return what stays of a schema as it is."""
    kept: JsonObject = {}
    types = schema.get("type")
    known = [type_ for type_ in (types if isinstance(types, list) else [types]) if type_ in TYPES]
    if known:
        kept["type"] = known if isinstance(types, list) else known[0]
    for keyword, wanted in (("required", list), ("$ref", str)):
        if isinstance(schema.get(keyword), wanted):
            kept[keyword] = schema[keyword]
    return kept


def _redact_value(value: object, letter: str) -> object:
    """Return a value of the same type."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return letter
    if isinstance(value, int | float):
        return NUMBER if isinstance(value, int) else FRACTION
    if isinstance(value, list):
        redacted: list[object] = []
        for part in value:
            if (new := _redact_value(part, letter)) not in redacted:
                redacted.append(new)
        return redacted
    return {}
