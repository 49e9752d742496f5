"""The official OpenAI client, the answers it reads, and the rules every stream keeps."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.support import TRANSCRIPTS, Transcript
from tools.stack import Process

REQUEST_FIELDS = ("messages", "tools", "tool_choice", "stop", "max_tokens", "response_format")
TIMEOUT_S = 120.0
MAX_AT_ONCE = 64
# One for each process: building a client reads all certificates, which takes 32 ms of a core.
HTTP = openai.DefaultHttpxClient(timeout=TIMEOUT_S)
Key = TypeVar("Key")


@dataclass
class Answer:
    """One choice, streamed or whole, with its log probabilities."""

    reasoning: str | None = None
    content: str | None = None
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str | None = None
    logprobs: list[Any] = field(default_factory=list)

    @property
    def message(self) -> dict[str, Any]:
        """The choice in the form of a transcript's `expect`."""
        return {
            "reasoning": self.reasoning,
            "content": self.content,
            "tool_calls": [
                {"name": call["name"], "arguments": call["arguments"]} for call in self.tool_calls
            ],
            "finish_reason": self.finish_reason,
        }


@dataclass
class Response:
    answers: dict[int, Answer] = field(default_factory=dict)
    usage: Any = None
    usages: list[Any] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    choice_token_ids: dict[str, list[int]] = field(default_factory=dict)
    stop_reason: str | int | None = None
    chunks: int = 0
    prompt_logprobs: list[Any] | None = None
    prompt_token_ids: list[int] = field(default_factory=list)
    malformed_calls: list[dict[str, Any]] | None = None
    discarded_tokens: int | None = None

    @property
    def answer(self) -> Answer:
        return self.answers[0]

    @property
    def message(self) -> dict[str, Any]:
        return self.answer.message

    def extend(self, extension: dict[str, Any] | None) -> None:
        """Add the `nvext` of a chunk or response."""
        extension = extension or {}
        self.token_ids += extension.get("completion_token_ids") or []
        for index, token_ids in (extension.get("choice_token_ids") or {}).items():
            self.choice_token_ids.setdefault(index, []).extend(token_ids)
        self.stop_reason = extension.get("stop_reason", self.stop_reason)
        for name in ("prompt_logprobs", "malformed_calls", "discarded_tokens"):
            setattr(self, name, extension.get(name, getattr(self, name)))
        self.prompt_token_ids += extension.get("prompt_token_ids") or []


class Client:
    """Asks one model through one frontend, with temperature 0 unless a field says otherwise."""

    def __init__(self, url: str, model: str) -> None:
        self.openai = openai.OpenAI(
            base_url=url + "/v1",
            api_key="none",
            timeout=TIMEOUT_S,
            max_retries=0,
            http_client=HTTP,
        )
        self.model = model

    def ask(
        self, transcript: Transcript, *, stream: bool = True, lenient: bool = False, **fields: Any
    ) -> Response:
        """Send a transcript's request.

        lenient: skip the rules that Backedge's streams keep.
        fields: replace or add to the request's; None removes a field.
        """
        request = build_request(transcript, self.model, fields)
        if not stream:
            return whole(self.openai.chat.completions.create(**request))
        request.setdefault("stream_options", {"include_usage": True})
        chunks = self.openai.chat.completions.create(**request, stream=True)
        return streamed(self._begin(chunks), lenient=lenient)

    def _begin(self, chunks: openai.Stream[ChatCompletionChunk]) -> Iterator[ChatCompletionChunk]:
        """Yield the chunks; an error before all of them is raised as the status that it has.

        Dynamo commits a stream to HTTP 200 as soon as the check takes longer than half a second;
        the refusal is then the stream's first event.
        """
        count = 0
        try:
            for chunk in chunks:
                yield chunk
                count += 1
        except openai.APIError as error:
            status = error.body.get("code") if isinstance(error.body, dict) else None
            if count or not isinstance(status, int):
                raise
            answer = type(chunks.response)(status, request=error.request)
            # The client's own choice of the class for a status; it has no public name.
            refused = self.openai._make_status_error(
                error.message, body=error.body, response=answer
            )
            raise refused from error


def eventually(holds: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Return whether `holds` is true within the time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False


def ask_all(asks: Mapping[Key, Callable[[], Response]]) -> dict[Key, Future[Response]]:
    """Send many requests at once: an engine is hardly slower with all of them than with one.

    Each future is done and keeps its response or error for the test case that reads it.
    """
    with ThreadPoolExecutor(MAX_AT_ONCE) as threads:
        return {key: threads.submit(ask) for key, ask in asks.items()}


@functools.cache
def ask_transcripts(
    frontend: Process,
    model: str,
    names: tuple[str, ...] = tuple(TRANSCRIPTS),
    *,
    lenient: bool = False,
) -> dict[tuple[str, bool], Future[Response]]:
    """Ask for transcripts by name, streaming and whole, once in a run; see `ask_all`.

    Return the futures by name and `stream`. lenient: as for `Client.ask`.
    """
    client = Client(frontend.url, model)
    return ask_all(
        {
            (name, stream): functools.partial(
                client.ask, TRANSCRIPTS[name], stream=stream, lenient=lenient
            )
            for name in names
            for stream in (True, False)
        }
    )


def build_request(transcript: Transcript, model: str, fields: dict[str, Any]) -> dict[str, Any]:
    request = {
        "model": model,
        "temperature": 0,
        **{name: transcript[name] for name in REQUEST_FIELDS if name in transcript},
    }
    extra = (
        {"chat_template_kwargs": transcript["chat_template_kwargs"]}
        if "chat_template_kwargs" in transcript
        else {}
    )
    request |= {**fields, "extra_body": {**extra, **(fields.get("extra_body") or {})}}
    return {name: value for name, value in request.items() if value is not None}


def whole(completion: ChatCompletion) -> Response:
    response = Response(usage=completion.usage, chunks=1)
    response.extend(getattr(completion, "nvext", None))
    for choice in completion.choices:
        message = choice.message
        response.answers[choice.index] = Answer(
            read_reasoning(message),
            message.content,
            [
                {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
                for call in message.tool_calls or []
                if call.type == "function"
            ],
            choice.finish_reason,
            (choice.logprobs and choice.logprobs.content) or [],
        )
    return response


def streamed(stream: Iterable[ChatCompletionChunk], *, lenient: bool = False) -> Response:
    """Read a stream to its end. lenient: do not assert what strict clients rely on."""
    response = Response()
    for chunk in stream:
        response.chunks += 1
        response.extend(getattr(chunk, "nvext", None))
        if chunk.usage is not None:
            response.usage = chunk.usage
            response.usages.append(chunk.usage)
        for choice in chunk.choices:
            answer = response.answers.setdefault(choice.index, Answer())
            if not lenient:
                assert answer.finish_reason is None, "nothing may follow the finish"
                check_delta(answer, choice.delta)
            add_delta(answer, choice.delta)
            answer.finish_reason = choice.finish_reason or answer.finish_reason
            answer.logprobs += (choice.logprobs and choice.logprobs.content) or []
    return response


def read_reasoning(part: Any) -> str | None:
    """Return the reasoning of a message or a delta, by Dynamo's name or vLLM's."""
    return getattr(part, "reasoning_content", None) or getattr(part, "reasoning", None)


def check_delta(answer: Answer, delta: Any) -> None:
    """Assert what strict clients rely on."""
    kinds = [kind for kind in (delta.content, read_reasoning(delta), delta.tool_calls) if kind]
    assert len(kinds) <= 1, f"one delta mixes kinds: {delta}"
    known = len(answer.tool_calls)
    for call in delta.tool_calls or []:
        if call.index == known:
            assert call.id
            assert call.function.name
            assert call.type == "function"
            known += 1
        else:
            assert call.index < known
            assert (call.id, call.function.name) == (None, None), "id and name come once"
        assert call.function.arguments is not None


def add_delta(answer: Answer, delta: Any) -> None:
    reasoning = read_reasoning(delta)
    if delta.content:
        answer.content = (answer.content or "") + delta.content
    if reasoning:
        answer.reasoning = (answer.reasoning or "") + reasoning
    for call in delta.tool_calls or []:
        while call.index >= len(answer.tool_calls):
            answer.tool_calls.append({"id": call.id, "name": call.function.name, "arguments": ""})
        answer.tool_calls[call.index]["arguments"] += call.function.arguments or ""
