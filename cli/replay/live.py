"""Repeats a recorded request through a running frontend and a replay worker.

A recording has no messages, and a model would write something else. So the worker has no model
(`python -m backedge.worker.demo --recordings FILE`), and the message is the request's id, by
which the worker finds the tokens. Everything else is the production code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from http import HTTPStatus

import msgspec

from ...base.errors import SetupError, shorten
from ...base.json_types import JsonObject
from ...base.limits import ANSWER_TIMEOUT_S, REPLAY_TIMEOUT_S
from ...postprocess.messages import ChoiceDelta, Delta, FunctionDelta, ToolCallDelta
from ...recording.comparison import Given
from ...recording.recording import Recording
from ..http_answer import decode_json, fetch

_DATA, _DONE = b"data: ", b"[DONE]"
MS_PER_S = 1000


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int
    function: _Function
    id: str | None = None
    type: str | None = None


class _Delta(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    """A choice of an event, in OpenAI's form; fields that are not compared are ignored."""

    index: int
    delta: _Delta | None = None
    finish_reason: str | None = None

    def as_delta(self) -> ChoiceDelta:
        part = self.delta or _Delta()
        calls = [
            ToolCallDelta(
                call.index,
                FunctionDelta(call.function.arguments or "", call.function.name),
                call.id,
                call.type,
            )
            for call in part.tool_calls or ()
        ]
        delta = Delta(part.role, part.content, part.reasoning_content, calls)
        return ChoiceDelta(self.index, delta, self.finish_reason)


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None


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

    Raises `SetupError` if it does not answer as a frontend does.
    """
    address = url.rstrip("/") + "/v1/chat/completions"
    body = json.dumps(build_request(recording)).encode()
    answer = fetch(address, body)
    if answer.status != HTTPStatus.OK:
        said = answer.body.decode(errors="replace")
        raise SetupError(f"{address} answered {answer.status}: {shorten(said)}")
    return list(read_events(answer.body))


def find_timeout(recordings: Sequence[Recording]) -> float:
    """Return how many seconds the answers of a running stack may take: as long as the recorded."""
    recorded_s = sum(each.chunks[-1].at_ms for each in recordings if each.chunks) / MS_PER_S
    return min(ANSWER_TIMEOUT_S + recorded_s, REPLAY_TIMEOUT_S)


def read_events(body: bytes) -> Iterator[Given]:
    """Yield the deltas of a stream of server-sent events. Raises `SetupError` for an error."""
    for line in body.splitlines():
        text = line.strip()
        if not text.startswith(_DATA) or text.removeprefix(_DATA) == _DONE:
            continue
        event = decode_json(_Event, text.removeprefix(_DATA), "an event of the frontend")
        if event.choices is None:
            said = text.decode(errors="replace")
            raise SetupError(f"the frontend answered with an error: {shorten(said)}")
        yield Given(0, [choice.as_delta() for choice in event.choices])


def as_live(recording: Recording) -> Recording:
    """Change a recording to what a replay worker gives: streamed, from the first token on."""
    params = msgspec.structs.replace(recording.params, stream=True)
    return msgspec.structs.replace(recording, params=params, resumed=0)
