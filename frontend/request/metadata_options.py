"""Request options that Dynamo's HTTP layer does not let through.

Dynamo 1.6 answers 400 to fields it does not know and drops some that it does
(`stop_token_ids`). OpenAI's `metadata` passes, so these options go into its key
"backedge": an object, or the same as a JSON string for typed clients.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...parsers.errors import RequestError

METADATA_KEY = "backedge"
OPTIONS: dict[str, tuple[type | Any, str]] = {
    "stop_token_ids": (list[int], "a list of token ids"),
    "return_token_ids": (bool, "true or false"),
    "spaces_between_special_tokens": (bool, "true or false"),
    "include_reasoning": (bool, "true or false"),
    "no_stop_trim": (bool, "true or false"),
}
# SGLang's name for what vLLM has, too.
SAME_AS = {"no_stop_trim": "include_stop_str_in_output"}
REFUSED = {
    "stop_regex": "no patterns, since nobody looks for them in a stream; `stop` takes strings"
}


def apply_metadata_options(request: dict[str, Any]) -> None:
    """Move the options of `request["metadata"]["backedge"]` to where they would be without Dynamo's HTTP layer.

    Also `stop` as a list of token ids, which Dynamo's HTTP layer accepts.
    Raises `RequestError` for an unknown option or a value of the wrong type.
    """
    if isinstance(stop := request.get("stop"), list) and all(
        isinstance(item, int) for item in stop
    ):
        request["stop_token_ids"] = request.pop("stop")
    metadata = request.get("metadata")
    given = metadata.get(METADATA_KEY) if isinstance(metadata, dict) else None
    if given is None:
        return
    for name, value in _object(given).items():
        field = f"metadata.{METADATA_KEY}.{name}"
        if name not in OPTIONS:
            raise RequestError(
                field, value, REFUSED.get(name, f"no such option; known are {', '.join(OPTIONS)}")
            )
        kind, allowed = OPTIONS[name]
        try:
            request[SAME_AS.get(name, name)] = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise RequestError(field, value, allowed) from error


def _object(given: object) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(given) if isinstance(given, str) else given
        return msgspec.convert(value, dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise RequestError(
            f"metadata.{METADATA_KEY}", given, "an object, or a JSON string of one"
        ) from error
