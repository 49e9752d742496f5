"""Refuses bad requests, before any GPU work, with the field's name.

Dynamo's HTTP layer has typed most fields by now; these are the checks that it
and vLLM leave out, or that they fail without saying which field is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from ...parsers.errors import RequestError

Request = dict[str, Any]
# What the search for stop strings may cost in memory: some 7 MB for each choice.
MAX_STOPS, MAX_STOP_CHARACTERS = 1024, 100_000
# What Dynamo's HTTP layer lets through, and its workers drop without a word.
UNSUPPORTED = {"logit_bias": "nothing: Dynamo's workers do not pass it to their engines"}


def check(request: Request) -> None:
    """Raise `RequestError` for the first field that is wrong."""
    for rule in RULES:
        rule(request)


def _token_limits(request: Request) -> None:
    limit = request.get("max_completion_tokens") or request.get("max_tokens")
    least = request.get("min_tokens")
    if least is not None and limit is not None and least > limit:
        raise RequestError("min_tokens", least, f"0 to max_tokens, which is {limit}")


def _logprobs(request: Request) -> None:
    top = request.get("top_logprobs")
    if top and request.get("logprobs") is not True:
        raise RequestError("top_logprobs", top, "only together with `logprobs`: true")


def _stop_strings(request: Request) -> None:
    stops = request.get("stop") or []
    stops = [stops] if isinstance(stops, str) else stops
    for position, stop in enumerate(stops):
        if not isinstance(stop, str) or not stop:
            raise RequestError(f"stop[{position}]", stop, "a non-empty string")
    characters = sum(map(len, stops))
    if len(stops) > MAX_STOPS or characters > MAX_STOP_CHARACTERS:
        allowed = f"at most {MAX_STOPS} strings of {MAX_STOP_CHARACTERS} characters together"
        raise RequestError("stop", f"{len(stops)} strings of {characters} characters", allowed)


def _unsupported(request: Request) -> None:
    for field, allowed in UNSUPPORTED.items():
        if request.get(field):
            raise RequestError(field, request[field], allowed)


def _schemas(request: Request) -> None:
    for field, schema in _named_schemas(request):
        error = _schema_error(msgspec.json.encode(schema))
        if error is not None:
            path = "".join(
                f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
            )
            raise RequestError(
                field + path, error.instance, f"a JSON Schema ({error.message})"
            ) from error


@lru_cache(maxsize=4096)
def _schema_error(schema: bytes) -> SchemaError | None:
    """Return what is wrong with the schema of this JSON text, None if it is one.

    Agents send the same tools with every request, and a check costs as much as
    all the rest of a request here.
    """
    try:
        Draft202012Validator.check_schema(msgspec.json.decode(schema))
    except SchemaError as error:
        return error
    return None


def _named_schemas(request: Request) -> Iterator[tuple[str, Any]]:
    for position, tool in enumerate(request.get("tools") or []):
        if (parameters := tool["function"].get("parameters")) is not None:
            yield f"tools[{position}].function.parameters", parameters
    response_format = request.get("response_format") or {}
    if response_format.get("type") == "json_schema":
        yield "response_format.json_schema.schema", response_format["json_schema"]["schema"]
    if (guided := request.get("guided_json")) is not None:
        yield "guided_json", _decoded(guided)


def _decoded(guided: object) -> object:
    """Return guided_json, which may be the text of a schema."""
    try:
        schema = msgspec.json.decode(guided) if isinstance(guided, str) else guided
    except msgspec.DecodeError:
        schema = guided
    if not isinstance(schema, dict | bool):
        raise RequestError("guided_json", guided, "a JSON Schema, or the text of one")
    return schema


def _tool_names(request: Request) -> None:
    seen: set[str] = set()
    for position, tool in enumerate(request.get("tools") or []):
        name = tool["function"]["name"]
        if name in seen:
            raise RequestError(
                f"tools[{position}].function.name", name, "a name that no other tool has"
            )
        seen.add(name)


def _tool_choice(request: Request) -> None:
    choice = request.get("tool_choice")
    if choice is None or choice in ("none", "auto"):
        return
    names = [tool["function"]["name"] for tool in request.get("tools") or []]
    wanted = choice["function"]["name"] if isinstance(choice, dict) else None
    if not names or (wanted is not None and wanted not in names):
        raise RequestError(
            "tool_choice", choice, f'"none", "auto", or one that `tools` can meet: {names}'
        )


def _messages(request: Request) -> None:
    for position, message in enumerate(request["messages"]):
        empty = message.get("content") in (None, []) and not message.get("tool_calls")
        if empty and not message.get("reasoning_content"):
            allowed = "text or content parts" + (
                ", or tool_calls" if message["role"] == "assistant" else ""
            )
            raise RequestError(f"messages[{position}].content", message.get("content"), allowed)


RULES: tuple[Callable[[Request], None], ...] = (
    _unsupported,
    _messages,
    _token_limits,
    _logprobs,
    _stop_strings,
    _tool_names,
    _tool_choice,
    _schemas,
)
