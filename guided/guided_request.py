"""The request fields that constrain the output, decoded once, with types.

Both a server's chat request and a row of a batch are a `GuidedRequest`, so the same checks and the
same policy apply to both.
"""

from __future__ import annotations

import re
from typing import Literal, NoReturn, TypeVar, get_args

import msgspec

from ..base.errors import RequestError
from ..base.json_types import JsonObject
from ..parsers.base import forces_call

ResponseFormatType = Literal["text", "json_object", "json_schema", "structural_tag"]


class Function(msgspec.Struct, gc=False):
    """A declared function. parameters: a JSON schema, unchecked."""

    name: str
    description: str | None = None
    strict: bool | None = None
    parameters: JsonObject | None = None


class Tool(msgspec.Struct, gc=False):
    """A tool that the model may call."""

    function: Function
    type: Literal["function"] = "function"


class FunctionName(msgspec.Struct, gc=False):
    """The name in a named tool choice."""

    name: str


class NamedToolChoice(msgspec.Struct, gc=False):
    """A `tool_choice` that demands one function."""

    function: FunctionName
    type: Literal["function"] = "function"


class JsonSchemaFormat(msgspec.Struct, gc=False):
    """The `json_schema` of a response format. schema: unchecked."""

    schema: object


class ResponseFormat(msgspec.Struct, gc=False):
    """OpenAI's `response_format`. json_schema: present where `type` is "json_schema"."""

    type: ResponseFormatType
    json_schema: JsonSchemaFormat | None = None


class GuidedRequest(msgspec.Struct, kw_only=True, dict=True):
    """The fields of a chat request, OpenAI's and Dynamo's, that constrain its answer.

    None stands for an absent field and for null. Schemas are not decoded; `request_checks`
    checks them.
    """

    tools: list[Tool] | None = None
    tool_choice: str | NamedToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    guided_json: object = None
    guided_regex: object = None
    guided_grammar: object = None
    guided_choice: object = None
    guided_whitespace_pattern: object = None

    @property
    def raw(self) -> JsonObject:
        """The request as JSON, for chat templates and for the engines' own preprocessors."""
        raw: JsonObject = self.__dict__["raw"]
        return raw

    @property
    def forces_call(self) -> bool:
        """Whether `tool_choice` demands a call."""
        return forces_call(self.tool_choice)

    @property
    def named_function(self) -> str | None:
        """The function that a named `tool_choice` demands, if any."""
        choice = self.tool_choice
        return choice.function.name if isinstance(choice, NamedToolChoice) else None


Request = TypeVar("Request", bound=GuidedRequest)

# For example "Expected `int`, got `str` - at `$.stop[1]`"; for a key "at `key` in `$.x`".
_ERROR = re.compile(r"(?P<problem>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>.*)`)?")
_EXPECTED = re.compile(r"Expected `(?P<type>[^`]*)`.*")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
# The values of tag fields other than "function".
_NAMES = {"response_format.type": get_args(ResponseFormatType)}
# msgspec's names of types.
_TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def decode_request(raw: JsonObject, kind: type[Request]) -> Request:
    """Return the typed request. raw: kept as its `raw`, not copied.

    Raises `RequestError` with the JSON path of a missing field or of a value of the wrong type.
    """
    try:
        request = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        _raise_request_error(raw, error)
    request.__dict__["raw"] = raw
    return request


def _raise_request_error(raw: object, error: msgspec.ValidationError) -> NoReturn:
    """Convert msgspec's error to a `RequestError`."""
    found = _ERROR.fullmatch(str(error))
    problem, path = (found["problem"], found["path"] or "") if found else (str(error), "")
    if (missing := _MISSING.fullmatch(problem)) is not None:
        field = f"{path}.{missing['name']}" if path else missing["name"]
        raise RequestError(field, "is required") from error
    expected = _EXPECTED.fullmatch(problem)
    allowed = problem
    if expected:
        allowed = " or ".join(_TYPES.get(name, name) for name in expected["type"].split(" | "))
    if problem.startswith("Invalid enum value"):
        allowed = f"one of {', '.join(map(repr, _NAMES.get(path, ('function',))))}"
    raise RequestError.wrong(path, _value_at(raw, path), allowed) from error


def _value_at(raw: object, path: str) -> object:
    """Return the value at a path such as `tools[0].function.name`."""
    value = raw
    for index, name in _STEP.findall(path):
        if isinstance(value, list) and index:
            value = value[int(index)]
        elif isinstance(value, dict):
            value = value[name]
    return value
