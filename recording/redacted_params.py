"""Redacts the parameters of a request: names, types and switches are kept, words are not."""

from __future__ import annotations

import msgspec

from ..base.json_schema import JSON_TYPES, Holds, replace_nested
from ..base.json_types import JsonObject
from ..postprocess.messages import PostprocessParams
from .kept_text import KEPT_HOLDERS

_TYPE_OF: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    type(None): "null",
}
_CONTAINERS = {Holds.MAP: dict, Holds.LIST: list}


def redact_params(params: PostprocessParams) -> PostprocessParams:
    """Return `params` in the form that a redacted recording may hold.

    Stop strings are kept. Logprobs and token ids of deltas are not requested, since the tokens
    are replaced.
    """
    parser = params.parser
    return msgspec.structs.replace(
        params,
        logprobs=None,
        return_token_ids=False,
        return_tokens_as_token_ids=False,
        parser=msgspec.structs.replace(
            parser,
            tools=[redact_tool(tool) for tool in parser.tools],
            chat_template_kwargs={
                name: value
                for name, value in parser.chat_template_kwargs.items()
                if value is None or isinstance(value, bool | int | float)
            },
        ),
    )


def redact_tool(tool: JsonObject) -> JsonObject:
    """Reduce a tool to its name and the shape of its schema."""
    function = tool.get("function")
    if not isinstance(function, dict):
        return {"type": "function"}
    kept: JsonObject = {"name": function.get("name")}
    if "parameters" in function:
        kept["parameters"] = redact_schema(function["parameters"])
    return {"type": "function", "function": kept}


def redact_schema(schema: object) -> object:
    """Reduce a JSON schema to names and types; the values it allows become their types."""
    if not isinstance(schema, dict):
        return schema if isinstance(schema, bool) else {}
    kept = _keep_types(schema)
    for keyword, holds in KEPT_HOLDERS.items():
        found = schema.get(keyword)
        if keyword in schema and isinstance(found, _CONTAINERS.get(holds, object)):
            kept[keyword] = replace_nested(found, holds, redact_schema)
    return kept


def _keep_types(schema: JsonObject) -> JsonObject:
    """Return the keywords of a schema that are kept unchanged."""
    kept: JsonObject = {}
    types = schema.get("type")
    names = types if isinstance(types, list) else [types]
    known = [name for name in names if isinstance(name, str) and name in JSON_TYPES]
    known = known or _name_types(schema)
    if known:
        kept["type"] = known if isinstance(types, list) or len(known) > 1 else known[0]
    for keyword, wanted in (("required", list), ("$ref", str), ("nullable", bool)):
        if isinstance(schema.get(keyword), wanted):
            kept[keyword] = schema[keyword]
    return kept


def _name_types(schema: JsonObject) -> list[str]:
    """Return the types of the values that a schema lists; [] if it lists none."""
    values = schema.get("enum")
    found = list(values) if isinstance(values, list) else []
    if "const" in schema:
        found.append(schema["const"])
    return list(dict.fromkeys(_TYPE_OF.get(type(value), "object") for value in found))
