"""Request options that Dynamo's HTTP layer rejects or drops.

Dynamo 1.6 rejects unknown fields with HTTP 400 and drops some known ones (`stop_token_ids`). It
passes OpenAI's `metadata` on, so these options are sent under its key "backedge": as an object, or,
for typed clients, as a JSON string of one.
"""

from __future__ import annotations

import msgspec

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...base.nested_json import decode_json
from .chat_request import ChatRequest

METADATA_KEY = "backedge"


class Metadata(msgspec.Struct):
    """OpenAI's `metadata`. options: an object, or JSON text of one."""

    options: object = msgspec.field(default=None, name=METADATA_KEY)


class Option(msgspec.Struct, frozen=True):
    """One option. field: the request's. type: of its value. allowed: description of the type."""

    field: str
    type: type
    allowed: str


def _switch(field: str) -> Option:
    return Option(field, bool, "true or false")


OPTIONS = {
    "stop_token_ids": Option("stop_token_ids", list[int], "a list of token ids"),
    "return_token_ids": _switch("return_token_ids"),
    "spaces_between_special_tokens": _switch("spaces_between_special_tokens"),
    "include_reasoning": _switch("include_reasoning"),
    # SGLang's name for vLLM's field.
    "no_stop_trim": _switch("include_stop_str_in_output"),
}


def apply_metadata_options(request: ChatRequest) -> None:
    """Set the fields that `metadata.backedge` specifies, in `request` and `request.raw`.

    Also moves `stop` to `stop_token_ids` if it is a list of token ids, which Dynamo's HTTP
    layer accepts.
    Raises `RequestError` for an unknown option or a value of the wrong type.
    """
    _move_stop_token_ids(request)
    if not isinstance(request.metadata, dict):
        return
    given = msgspec.convert(request.metadata, Metadata).options
    if given is None:
        return
    for name, value in _decode_options(given).items():
        path = f"metadata.{METADATA_KEY}.{name}"
        if name not in OPTIONS:
            raise RequestError.unsupported(path, _explain_unknown(name))
        option = OPTIONS[name]
        try:
            request.set_field(option.field, msgspec.convert(value, option.type), path)
        except msgspec.ValidationError as error:
            raise RequestError.wrong(path, value, option.allowed) from error


def _explain_unknown(name: str) -> str:
    if name == "stop_regex":
        return "a stream is searched for strings only; use `stop`"
    return f"the options are {', '.join(OPTIONS)}"


def _move_stop_token_ids(request: ChatRequest) -> None:
    if isinstance(request.stop, list) and all(isinstance(item, int) for item in request.stop):
        request.set_field("stop_token_ids", request.stop, "stop")
        request.stop = None
        del request.raw["stop"]


def _decode_options(given: object) -> JsonObject:
    try:
        value = decode_json(given) if isinstance(given, str) else given
        return msgspec.convert(value, JsonObject)
    except (ValueError, msgspec.ValidationError) as error:
        allowed = "an object or a JSON string of one"
        raise RequestError.wrong(f"metadata.{METADATA_KEY}", given, allowed) from error
