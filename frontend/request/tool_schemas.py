"""The schemas of tools: checked, and in the words of JSON Schema for engines that compile them.

Chat templates get the tools as the client wrote them, as in vLLM's server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

from ...parsers.json_types import JsonObject
from ...parsers.standard_schema import standardize
from .chat_request import ChatRequest

# What the checks remember. Agents send the same tools with every request.
CACHED_SCHEMAS = 4096


class SchemaFault(NamedTuple):
    """What is wrong with a schema. path: the JSON path in it, such as ".items[0].type"."""

    path: str
    value: object
    message: str


class _Checked(NamedTuple):
    """fault: what is wrong with a schema. standard: its standard form, if it has another one."""

    fault: SchemaFault | None
    standard: JsonObject | None


def find_tool_schema_fault(schema: JsonObject) -> SchemaFault | None:
    """Return what is wrong with a tool's schema; None for a correct one.

    Type names of other languages are correct (see parsers/standard_schema.py), and so is what the
    draft says that `$schema` names.
    """
    return _check_tool_schema(msgspec.json.encode(schema)).fault


def find_schema_fault(schema: object) -> SchemaFault | None:
    """Return what is wrong with a schema that constrains the answer; None for a correct one."""
    return _check_schema(msgspec.json.encode(schema))


def standard_parameters(parameters: JsonObject) -> JsonObject:
    """Return a tool's schema in its standard form. It may be shared: do not change it."""
    return _check_tool_schema(msgspec.json.encode(parameters)).standard or parameters


def with_standard_tools(request: ChatRequest) -> JsonObject:
    """Return the raw request with the standard form of its tools' schemas."""
    raw = request.raw
    if not request.tools:
        return raw
    tools = [standardize_tool(tool) for tool in raw["tools"]]
    changed = any(map(_differs, tools, raw["tools"]))
    return {**raw, "tools": tools} if changed else raw


def compiles_tools(request: ChatRequest) -> bool:
    """Whether an engine makes a grammar of the tools: a call is forced, or one is strict."""
    if not request.tools or request.tool_choice == "none":
        return False
    return request.tool_choice not in (None, "auto") or any(
        tool["function"].get("strict") for tool in request.raw["tools"]
    )


def standardize_tool(tool: JsonObject) -> JsonObject:
    """Return a tool with the standard form of its schema; the same object if it has that."""
    function = tool["function"]
    parameters = function.get("parameters")
    standard = standard_parameters(parameters) if parameters else parameters
    if standard is parameters:
        return tool
    return {**tool, "function": {**function, "parameters": standard}}


@lru_cache(maxsize=CACHED_SCHEMAS)
def _check_tool_schema(text: bytes) -> _Checked:
    """Check a schema, given as JSON text, which can be a cache's key."""
    schema: JsonObject = msgspec.json.decode(text)
    checker = _find_checker(schema)
    is_newest = checker is Draft202012Validator
    standard = standardize(schema)
    checked = standard if is_newest else standardize(schema, newest=False)
    fault = _find_fault(checker, checked, _written_words if is_newest else _same_words, schema)
    return _Checked(fault, None if standard is schema else standard)


@lru_cache(maxsize=CACHED_SCHEMAS)
def _check_schema(text: bytes) -> SchemaFault | None:
    schema = msgspec.json.decode(text)
    return _find_fault(_find_checker(schema), schema, _same_words, schema)


def _find_checker(schema: object) -> type[Draft202012Validator]:
    """Return the validator of the draft that the schema names, or of the newest."""
    names_draft = isinstance(schema, dict) and isinstance(schema.get("$schema"), str)
    found: type[Draft202012Validator] = (
        validator_for(schema, Draft202012Validator) if names_draft else Draft202012Validator
    )
    return found


def _find_fault(
    checker: type[Draft202012Validator],
    checked: object,
    words: Callable[[object, str | int], str | int],
    written: object,
) -> SchemaFault | None:
    """Return the fault of `checked`, whose path leads through `written`.

    words: the word of `written` for one of `checked`.
    """
    try:
        checker.check_schema(checked)
    except SchemaError as error:
        path = ""
        for word in error.absolute_path:
            step = words(written, word)
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
            written = _find_part(written, step)
        return SchemaFault(path, error.instance, error.message)
    except RecursionError:
        return SchemaFault("", "a schema nested too deeply", "it is nested too deeply")
    return None


def _find_part(schema: object, step: str | int) -> object:
    if isinstance(schema, dict):
        return schema.get(step)
    return schema[step] if isinstance(schema, list) and isinstance(step, int) else None


def _same_words(_written: object, word: str | int) -> str | int:
    return word


def _written_words(written: object, word: str | int) -> str | int:
    """Return what stands in a tool's schema for a keyword of its standard form."""
    if not isinstance(written, dict) or not isinstance(written.get("items"), list):
        return word
    return {"prefixItems": "items", "items": "additionalItems"}.get(str(word), word)


def _differs(one: object, other: object) -> bool:
    return one is not other
