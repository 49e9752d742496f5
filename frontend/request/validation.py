"""Rejects bad requests before any GPU work, with the JSON path of the wrong field.

Dynamo's HTTP layer and `chat_request` have checked the types. These are the checks that Dynamo
and vLLM leave out, and those that they fail without saying which field is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ...parsers.errors import RequestError
from .chat_request import ChatRequest, Message
from .tool_schemas import SchemaFault, find_schema_fault, find_tool_schema_fault

# They bound the memory of the search for stop strings: some 7 MB for each choice.
MAX_STOPS, MAX_STOP_CHARACTERS = 1024, 100_000


def check_request(request: ChatRequest) -> None:
    """Raise `RequestError` for the first field that is wrong."""
    for rule in RULES:
        rule(request)


def _check_unsupported(request: ChatRequest) -> None:
    if request.logit_bias:
        raise RequestError(
            "logit_bias",
            request.logit_bias,
            "nothing, since Dynamo's workers do not pass it to the engine",
        )


def _check_token_limits(request: ChatRequest) -> None:
    limit, least = request.max_output_tokens, request.min_tokens
    if least is not None and limit is not None and least > limit:
        raise RequestError("min_tokens", least, f"0 to max_tokens, which is {limit}")


def _check_logprobs(request: ChatRequest) -> None:
    if request.top_logprobs and request.logprobs is not True:
        raise RequestError(
            "top_logprobs", request.top_logprobs, "only together with `logprobs`: true"
        )


def _check_stop_strings(request: ChatRequest) -> None:
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    for position, stop in enumerate(stops):
        if not isinstance(stop, str) or not stop:
            raise RequestError(f"stop[{position}]", stop, "a non-empty string")
    characters = sum(map(len, request.stop_strings))
    if len(stops) > MAX_STOPS or characters > MAX_STOP_CHARACTERS:
        allowed = f"at most {MAX_STOPS} strings of {MAX_STOP_CHARACTERS} characters together"
        raise RequestError("stop", f"{len(stops)} strings of {characters} characters", allowed)


def _check_schemas(request: ChatRequest) -> None:
    for position, tool in enumerate(request.tools or []):
        parameters = tool.function.parameters
        if parameters is not None:
            field = f"tools[{position}].function.parameters"
            _raise_fault(field, find_tool_schema_fault(parameters))
    for field, schema in _find_answer_schemas(request):
        _raise_fault(field, find_schema_fault(schema))


def _raise_fault(field: str, fault: SchemaFault | None) -> None:
    if fault is not None:
        raise RequestError(field + fault.path, fault.value, f"a JSON Schema ({fault.message})")


def _find_answer_schemas(request: ChatRequest) -> Iterator[tuple[str, object]]:
    """Yield the JSON path of each schema that constrains the answer, and the schema."""
    response_format = request.response_format
    if response_format is not None and response_format.type == "json_schema":
        if response_format.json_schema is None:
            raise RequestError("response_format.json_schema", None, "an object with a `schema`")
        yield "response_format.json_schema.schema", response_format.json_schema.schema
    if request.guided_json is not None:
        yield "guided_json", _decode_guided_json(request.guided_json)


def _decode_guided_json(guided_json: object) -> object:
    """Return the schema in `guided_json`, which may be a schema or the text of one."""
    try:
        schema = msgspec.json.decode(guided_json) if isinstance(guided_json, str) else guided_json
    except msgspec.DecodeError:
        schema = guided_json
    if not isinstance(schema, dict | bool):
        raise RequestError("guided_json", guided_json, "a JSON Schema, or the text of one")
    return schema


def _check_tool_names(request: ChatRequest) -> None:
    names: set[str] = set()
    for position, tool in enumerate(request.tools or []):
        name = tool.function.name
        if name in names:
            raise RequestError(
                f"tools[{position}].function.name", name, "a name that no other tool has"
            )
        names.add(name)


def _check_tool_choice(request: ChatRequest) -> None:
    if request.tool_choice in (None, "none", "auto"):
        return
    names = [tool.function.name for tool in request.tools or []]
    demanded = request.named_function
    if not names or (demanded is not None and demanded not in names):
        allowed = f'"none", "auto", or a choice among the functions in `tools`: {names}'
        raise RequestError("tool_choice", request.raw["tool_choice"], allowed)


def _check_messages(request: ChatRequest) -> None:
    for position, message in enumerate(request.messages):
        if _is_empty(message):
            allowed = "text or content parts" + (
                ", or tool_calls" if message.role == "assistant" else ""
            )
            raise RequestError(f"messages[{position}].content", message.content, allowed)


def _is_empty(message: Message) -> bool:
    return (
        message.content in (None, []) and not message.tool_calls and not message.reasoning_content
    )


RULES: tuple[Callable[[ChatRequest], None], ...] = (
    _check_unsupported,
    _check_messages,
    _check_token_limits,
    _check_logprobs,
    _check_stop_strings,
    _check_tool_names,
    _check_tool_choice,
    _check_schemas,
)
