"""Repeats a recorded request through a running frontend and a replay worker.

A recording has no messages, and a model would write something else. So the worker has no model
(`python -m backedge.worker.replay --recordings FILE`), and the message is the request's id, by
which the worker finds the tokens. Everything else is the production code.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator

import msgspec

from ...base.errors import SetupError, shorten
from ...base.json_types import JsonObject
from ...postprocess.messages import ChoiceDelta, Delta, FunctionDelta, ToolCallDelta
from ...recording.comparison import Given
from ...recording.recording import Recording

TIMEOUT_S = 60.0
_DATA, _DONE = "data: ", "[DONE]"


def build_request(recording: Recording) -> JsonObject:
    """Build the chat request with the parameters of a recorded one.

    Raises `SetupError` for a request with several choices, as a replay worker gives all the same.
    """
    params, parser = recording.params, recording.params.parser
    if params.n > 1:
        raise SetupError(
            f"request {params.response_id} has {params.n} choices; --url replays only one."
        )
    request: JsonObject = {
        "model": params.model,
        "messages": [{"role": "user", "content": params.response_id}],
        "stream": True,
        "max_tokens": sum(len(part.chunk.token_ids) for part in recording.chunks),
        "metadata": {"backedge": {"include_reasoning": parser.include_reasoning}},
    }
    optional = {
        "stop": params.stop,
        "min_tokens": params.min_tokens,
        "chat_template_kwargs": parser.chat_template_kwargs,
        "tools": parser.tools,
    }
    request |= {name: value for name, value in optional.items() if value}
    if parser.tools:
        request["tool_choice"] = parser.tool_choice
        request["parallel_tool_calls"] = parser.parallel_tool_calls
    return request


def ask(recording: Recording, url: str) -> list[Given]:
    """Return the deltas of a frontend's answer. url: of the frontend, without /v1.

    Raises `SetupError` if it does not answer.
    """
    body = json.dumps(build_request(recording)).encode()
    address = url.rstrip("/") + "/v1/chat/completions"
    if not address.startswith(("http://", "https://")):
        raise SetupError(f"--url {url}: must be a URL, for example http://localhost:8000.")
    request = urllib.request.Request(  # noqa: S310 - it is HTTP
        address, body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - as above
            return list(read_events(answer))
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")
        raise SetupError(f"{address} answered {error.code}: {shorten(said)}") from error
    except (OSError, ValueError) as error:
        raise SetupError(f"{address} did not answer ({shorten(str(error))}).") from error


def read_events(lines: Iterable[bytes]) -> Iterator[Given]:
    """Yield the deltas of a stream of server-sent events. Raises `SetupError` for an error."""
    for line in lines:
        text = line.decode().strip()
        if not text.startswith(_DATA) or text.removeprefix(_DATA) == _DONE:
            continue
        event = json.loads(text.removeprefix(_DATA))
        if "choices" not in event:
            raise SetupError(f"the frontend answered with an error: {shorten(text)}")
        yield Given(0, [read_delta(choice) for choice in event["choices"]])


def read_delta(choice: JsonObject) -> ChoiceDelta:
    """Convert a choice of a chunk to a `ChoiceDelta`."""
    delta = choice.get("delta") or {}
    calls = [
        ToolCallDelta(
            call["index"],
            FunctionDelta(call["function"].get("arguments") or "", call["function"].get("name")),
            call.get("id"),
            call.get("type"),
        )
        for call in delta.get("tool_calls") or ()
    ]
    return ChoiceDelta(
        choice["index"],
        Delta(delta.get("role"), delta.get("content"), delta.get("reasoning_content"), calls),
        choice.get("finish_reason"),
    )


def as_live(recording: Recording) -> Recording:
    """Change a recording to what a replay worker gives: streamed, from the first token on."""
    params = msgspec.structs.replace(recording.params, stream=True)
    return msgspec.structs.replace(recording, params=params, resumed=0)
