"""The request fields that constrain the output, decoded once, with types.

Both a server's chat request and a row of a batch are a `GuidedRequest`, so the same checks and the
same policy apply to both.

`check_constraints` is fast enough for a server's event loop: it checks that the constraints are
compatible. `check_schemas` checks schemas, expressions and grammars, in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal, NoReturn, TypeVar, get_args

import msgspec

from ..base import limits
from ..base.errors import RequestError, show
from ..base.json_schema import Path
from ..base.json_types import JsonObject, check_nesting, is_deeper
from ..parsers.base import forces_call
from .client_schemas import SchemaFault, find_fault, find_pattern_fault, find_tool_fault
from .grammar_size import (
    GrammarSize,
    measure_pattern,
    measure_rules,
    measure_schema,
    measure_tag,
)

ResponseFormatType = Literal["text", "json_object", "json_schema", "structural_tag"]
# At most one of these constrains an answer.
GUIDED_FIELDS = ("guided_json", "guided_regex", "guided_grammar", "guided_choice")
# Those whose value is no schema, with the one that refines them.
GUIDED_TEXTS = (*GUIDED_FIELDS[1:], "guided_whitespace_pattern")


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


def check_constraints(request: GuidedRequest) -> None:
    """Raise `RequestError` for the first invalid tool, `tool_choice` or constraint."""
    _check_tools(request)
    _check_tool_choice(request)
    _check_one_constraint(request)


def _check_tools(request: GuidedRequest) -> None:
    tools = request.tools or []
    if len(tools) > limits.MAX_TOOLS:
        raise RequestError.too_many("tools", len(tools), "tools", limits.MAX_TOOLS)
    names: set[str] = set()
    for position, tool in enumerate(tools):
        name, field = tool.function.name, f"tools[{position}].function.name"
        if not 0 < len(name) <= limits.MAX_TOOL_NAME:
            expected = f"a name of at most {limits.MAX_TOOL_NAME} characters"
            raise RequestError.wrong(field, name, expected)
        if name in names:
            raise RequestError(field, f"must be unique; another tool is {show(name)}")
        names.add(name)


def _check_tool_choice(request: GuidedRequest) -> None:
    choice = request.tool_choice
    if isinstance(choice, str) and choice not in ("none", "auto", "required"):
        allowed = '"none", "auto", "required" or a named function'
        raise RequestError.wrong("tool_choice", choice, allowed)
    if not request.forces_call:
        return
    names = [tool.function.name for tool in request.tools or []]
    demanded = request.named_function
    if not names or (demanded is not None and demanded not in names):
        allowed = f'"none", "auto", or one of the functions in `tools`, {names}'
        raise RequestError.wrong("tool_choice", request.raw["tool_choice"], allowed)


def _check_one_constraint(request: GuidedRequest) -> None:
    """At most one constraint; a forced call is one, and leaves the message empty."""
    if request.guided_choice == []:
        raise RequestError.wrong("guided_choice", [], "a list of one text or more")
    given = [field for field in GUIDED_FIELDS if getattr(request, field) is not None]
    response_format = request.response_format
    if request.forces_call:
        if response_format is not None and response_format.type == "structural_tag":
            given.append("response_format")
        other = "`tool_choice`, which forces a tool call"
    else:
        other = f"`{given[0]}`, which constrains the answer" if given else ""
        given = given[1:]
    if given:
        raise RequestError(given[0], f"cannot be combined with {other}")


def has_schemas(request: GuidedRequest) -> bool:
    """Whether `check_schemas` has anything to check."""
    return (
        bool(request.tools)
        or request.response_format is not None
        or any(getattr(request, field) is not None for field in ("guided_json", *GUIDED_TEXTS))
    )


def check_schemas(
    request: GuidedRequest,
    find_tool_fault: Callable[[JsonObject], SchemaFault | None] = find_tool_fault,
    measure_tool: Callable[[JsonObject], GrammarSize] = measure_schema,
) -> None:
    """Raise `RequestError` for the first invalid schema, expression or grammar.

    find_tool_fault, measure_tool: check and measure a tool's schema; may be cached versions.
    """
    total, steps = 0, _Steps()
    for position, tool in enumerate(request.tools or []):
        parameters = tool.function.parameters
        if parameters is not None:
            field = f"tools[{position}].function.parameters"
            total += _measure(field, parameters)
            if total > limits.MAX_SCHEMAS_BYTES:
                unit = "bytes of schemas or more"
                raise RequestError.too_many("tools", total, unit, limits.MAX_SCHEMAS_BYTES)
            _raise_fault(field, find_tool_fault(parameters))
            steps.add(field, measure_tool(parameters))
    for field, schema in _find_answer_schemas(request):
        _measure(field, schema)
        _raise_fault(field, find_fault(schema))
        steps.add(field, measure_schema(schema))
    _check_structural_tag(request, steps)
    for field in GUIDED_TEXTS:
        if (text := getattr(request, field)) is not None:
            _check_text(field, text)
            if isinstance(text, str):
                measure = measure_rules if field == "guided_grammar" else measure_pattern
                steps.add(field, GrammarSize(0, {text: measure(text)}))


# The parts of Dynamo's `guided_decoding`, with the types that engines take.
_JSON_TYPES: tuple[tuple[type, ...], str] = ((str, dict), "an object, or the text of one")
_TEXT_TYPES: tuple[tuple[type, ...], str] = ((str,), "a string")
_CONSTRAINT_TYPES = {
    "json": _JSON_TYPES,
    "structural_tag": _JSON_TYPES,
    "choice": ((list,), "a list of strings"),
    **dict.fromkeys(("regex", "grammar", "whitespace_pattern"), _TEXT_TYPES),
}


def check_guided_decoding(guided_decoding: JsonObject) -> None:
    """Raise `RequestError` if Dynamo's `guided_decoding` has a wrong type or takes too many steps.

    For a worker, whose frontend may have checked nothing.
    """
    steps, field = _Steps(), "sampling_options.guided_decoding"
    for kind, value in guided_decoding.items():
        types, allowed = _CONSTRAINT_TYPES.get(kind, ((object,), ""))
        if value is not None and not isinstance(value, types):
            raise RequestError.wrong(f"{field}.{kind}", value, allowed)
        if kind in ("regex", "whitespace_pattern") and isinstance(value, str):
            steps.add(f"{field}.{kind}", GrammarSize(0, {value: measure_pattern(value)}))
        elif kind == "grammar" and isinstance(value, str):
            steps.add(f"{field}.{kind}", GrammarSize(0, {value: measure_rules(value)}))
        elif kind in ("json", "structural_tag") and value is not None:
            measure = measure_schema if kind == "json" else measure_tag
            steps.add(f"{field}.{kind}", measure(_decode_text(value)))


def _decode_text(schema: object) -> object:
    if not isinstance(schema, str):
        return schema
    return msgspec.json.decode(check_nesting(schema))


class _Steps:
    """Adds up the steps of a request's grammars."""

    def __init__(self) -> None:
        self._sum = 0
        self._known: set[object] = set()

    def add(self, field: str, size: GrammarSize) -> None:
        """Add a field's. Raises `RequestError` if they are too many, with the largest part."""
        self._sum += size.objects + sum(
            steps for text, steps in size.texts.items() if text not in self._known
        )
        self._known.update(size.texts)
        if self._sum > limits.MAX_GRAMMAR_STEPS:
            steps, path = size.largest
            is_alone = steps > limits.MAX_GRAMMAR_STEPS
            count, field = (steps, field + _write_path(path)) if is_alone else (self._sum, field)
            unit = "steps in the grammar of an engine"
            raise RequestError.too_many(field, count, unit, limits.MAX_GRAMMAR_STEPS)


def _measure(field: str, schema: object) -> int:
    """Return the size of a schema's text in bytes. Raises `RequestError` if it is too large."""
    if is_deeper(schema, limits.MAX_SCHEMA_DEPTH):
        raise RequestError.wrong(field, schema, f"at most {limits.MAX_SCHEMA_DEPTH} levels deep")
    size = len(msgspec.json.encode(schema))
    if size > limits.MAX_SCHEMA_BYTES:
        raise RequestError.too_many(field, size, "bytes", limits.MAX_SCHEMA_BYTES)
    return size


def _raise_fault(field: str, fault: SchemaFault | None) -> None:
    if fault is not None:
        raise RequestError.wrong(field + _write_path(fault.path), fault.value, fault.allowed)


def _write_path(path: Path) -> str:
    return "".join(f"[{word}]" if isinstance(word, int) else f".{word}" for word in path)


def _find_answer_schemas(request: GuidedRequest) -> Iterator[tuple[str, object]]:
    """Yield the JSON path of each schema that constrains the answer, and the schema."""
    response_format = request.response_format
    if response_format is not None and response_format.type == "json_schema":
        if response_format.json_schema is None:
            raise RequestError("response_format.json_schema", "is required")
        yield "response_format.json_schema.schema", response_format.json_schema.schema
    if request.guided_json is not None:
        yield "guided_json", _decode_guided_json(request.guided_json)


def _decode_guided_json(guided_json: object) -> object:
    """Return the schema in `guided_json`, given as a schema or as text."""
    schema = guided_json
    if isinstance(guided_json, str):
        if len(guided_json) > limits.MAX_SCHEMA_BYTES:
            size = len(guided_json)
            raise RequestError.too_many("guided_json", size, "characters", limits.MAX_SCHEMA_BYTES)
        try:
            schema = msgspec.json.decode(check_nesting(guided_json))
        except msgspec.DecodeError:
            schema = guided_json
    if not isinstance(schema, dict | bool):
        raise RequestError.wrong("guided_json", guided_json, "a JSON Schema, or the text of one")
    return schema


def _check_structural_tag(request: GuidedRequest, steps: _Steps) -> None:
    if request.response_format is not None and request.response_format.type == "structural_tag":
        tag = request.raw["response_format"]
        _measure("response_format", tag)
        steps.add("response_format", measure_tag(tag))


def _check_text(field: str, text: object) -> None:
    if field in ("guided_regex", "guided_whitespace_pattern"):
        if (allowed := find_pattern_fault(text)) is not None or not text:
            raise RequestError.wrong(field, text, allowed or "a regular expression")
    elif field == "guided_grammar":
        if not isinstance(text, str) or not 0 < len(text) <= limits.MAX_GRAMMAR_CHARACTERS:
            allowed = f"a grammar of at most {limits.MAX_GRAMMAR_CHARACTERS:,} characters"
            raise RequestError.wrong(field, text, allowed)
    elif not _are_choices(text):
        allowed = (
            f"a list of texts, of at most {limits.MAX_GRAMMAR_CHARACTERS:,} characters together"
        )
        raise RequestError.wrong(field, text, allowed)


def _are_choices(choices: object) -> bool:
    return (
        isinstance(choices, list)
        and all(isinstance(choice, str) for choice in choices)
        and sum(map(len, choices)) + len(choices) <= limits.MAX_GRAMMAR_CHARACTERS
    )
