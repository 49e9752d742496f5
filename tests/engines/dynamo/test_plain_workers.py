"""The malformed calls of plain workers, which a frontend has the model write again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, get_args

import pytest
from backedge.base.json_types import JsonObject
from backedge.engines.dynamo.plain_workers import regenerate
from backedge.frontend.metrics import LocalParsing
from backedge.frontend.response.worker_stream import StreamReader, WorkerError
from backedge.guided.call_policy import find_call_format
from backedge.parsers.base import ParserNames
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import KEY
from backedge.postprocess.messages import encode as encode_message
from backedge.postprocess.postprocessor import Postprocessor
from backedge.postprocess.settings import StreamCalls
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from tests.frontend.doubles import Annotated, Context
from tests.postprocess.test_call_hold import GOOD, call, declare
from tests.support import encode, message, params, tiny_detokenizers, tiny_parsers

NAMES = ParserNames("hermes")
PROMPT = [1, 2, 3]
BAD = call("{}")
BEFORE = "Look.\n"
MEANT = f"{BEFORE}{GOOD}\nDone."
ROME = [{"name": "get_weather", "arguments": '{"city": "Rome"}'}]


class Request(Context):
    """A request, or a part of one that is stopped alone."""

    def __init__(self, name: str = "request-1") -> None:
        self._id = name
        self._ended = asyncio.Event()
        self.parts: list[Request] = []

    @override
    def id(self) -> str:
        return self._id

    @override
    def stop_generating(self) -> None:
        super().stop_generating()
        self._ended.set()

    def detached(self, name: str) -> Request:
        self.parts.append(Request(name))
        return self.parts[-1]

    def async_killed_or_stopped(self) -> Awaitable[bool]:
        return self._ended.wait()


class Worker:
    """Writes one text for each request, until it is stopped, and for one at a time.

    contexts: of the requests. asked_again: is set by the second one.
    """

    def __init__(self, *texts: str | Exception) -> None:
        self._texts = list(texts)
        self._running = 0
        self.requests: list[JsonObject] = []
        self.contexts: list[Request] = []
        self.asked_again = asyncio.Event()

    async def generate(self, request: JsonObject, *, context: Any) -> AsyncIterator[Annotated]:
        assert not self._running
        text = self._texts[len(self.requests)]
        self.requests.append(request)
        self.contexts.append(context)
        if len(self.requests) > 1:
            self.asked_again.set()
        if isinstance(text, Exception):
            raise text
        self._running += 1
        return self._write(text, context)

    async def _write(self, text: str, context: Request) -> AsyncIterator[Annotated]:
        for token_id in encode(text):
            if context.is_stopped():
                break
            yield Annotated({"token_ids": [token_id]})
            await asyncio.sleep(0)
        self._running -= 1
        yield Annotated({"token_ids": [], "finish_reason": "stop"})


class Mortal(Worker):
    """Writes `BEFORE`, a malformed call, then what `MEANT` has after the tokens of a request.

    lives: how many tokens it gives, at most, to each request but the first before it dies.
    """

    def __init__(self, *lives: int) -> None:
        super().__init__()
        self._lives = list(lives)

    @override
    async def generate(self, request: JsonObject, *, context: Any) -> AsyncIterator[Annotated]:
        kept = tiny_detokenizers().read(request["token_ids"][len(PROMPT) :])
        self._texts.append(MEANT.removeprefix(kept) if self.requests else f"{BEFORE}{BAD}!")
        return await super().generate(request, context=context)

    @override
    async def _write(self, text: str, context: Request) -> AsyncIterator[Annotated]:
        mortal = len(self.requests) > 1 and self._lives
        left = min(self._lives.pop(0), len(encode(text))) if mortal else -1
        async for item in super()._write(text, context):
            if not left:
                self._running = 0
                raise RuntimeError("Unavailable: no such worker")
            left -= 1
            yield item


async def read(
    worker: Worker,
    context: Request,
    parsing: LocalParsing,
    stream_calls: StreamCalls | None = None,
    **fields: Any,
) -> Any:
    """Return the message of an answer."""
    factories = (tiny_detokenizers(), tiny_parsers(NAMES))
    format_ = find_call_format(NAMES)
    assert format_ is not None
    engine = regenerate(format_, lambda: factories, parsing, stream_calls, limit=2)(worker)
    asked = params(prompt_length=len(PROMPT), parser=declare(), **fields)
    request = {"token_ids": PROMPT, "extra_args": {KEY: encode_message(asked)}}
    reader = StreamReader(asked, lambda: Postprocessor(asked, *factories, prompt_token_ids=PROMPT))
    found = [processed async for _, processed in reader.read(engine, request, context)]
    deltas = [delta for processed in found for delta in processed.deltas if not delta.index]
    return message(aggregate_deltas(deltas))


def ask(worker: Worker, **fields: Any) -> Any:
    async def run() -> Any:
        return await read(worker, Request(), LocalParsing(), **fields)

    return asyncio.run(run())


def test_a_malformed_call_is_written_again_by_a_second_request() -> None:
    async def run() -> None:
        worker, whole = Worker(f"Look.\n{BAD}!", f"{GOOD}\nDone."), Request()
        parsing = LocalParsing()
        answer = await read(worker, whole, parsing)
        assert (answer["tool_calls"], answer["content"]) == (ROME, "Look.\nDone.")
        first, second = worker.requests
        assert second["token_ids"] == first["token_ids"] + encode("Look.\n")
        assert "structural_tag" in second["sampling_options"]["guided_decoding"]
        # The first was stopped alone, and the client's own request goes on.
        assert [part.id() for part in whole.parts] == ["request-1", "request-1-again1"]
        assert not whole.is_stopped()
        counted = {
            sample.name: sample.value
            for family in parsing.collect()
            for sample in getattr(family, "samples", ())
            if sample.value
        }
        assert counted["backedge_calls_regenerated_total"] == 1
        assert counted["backedge_discarded_tokens_total"] >= len(encode(BAD))

    asyncio.run(run())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("text", [f"{GOOD}\nDone.", "No call."])
def test_a_good_answer_needs_one_request(text: str, stream: bool) -> None:
    worker = Worker(text)
    ask(worker, stream=stream)
    assert len(worker.requests) == 1


def test_an_answer_of_several_choices_stays_as_it_is() -> None:
    """Its calls are not generated again: the request is the client's own."""
    worker = Worker(BAD)
    with pytest.raises(WorkerError):  # the worker writes one choice
        ask(worker, n=2)
    assert [context.id() for context in worker.contexts] == ["request-1"]


def test_a_client_that_leaves_stops_the_attempt() -> None:
    async def run() -> None:
        worker, whole = Worker(BAD, GOOD * 99), Request()
        task = asyncio.create_task(read(worker, whole, LocalParsing()))
        await worker.asked_again.wait()
        whole.stop_generating()
        await task
        assert worker.contexts[1].is_stopped()

    asyncio.run(run())


def test_a_refused_attempt_leaves_the_call_open() -> None:
    worker = Worker(f"{BAD}!", ValueError("no grammar"), " Done.")
    answer = ask(worker)
    assert [one["name"] for one in answer["tool_calls"]] == ["get_weather"]
    assert answer["content"].endswith(" Done.")


lives = st.integers(0, len(encode(GOOD)) + 4)


@given(lives, lives)
@pytest.mark.parametrize("stream_calls", get_args(StreamCalls))
def test_another_worker_goes_on_in_place_of_one_that_died_within_an_attempt(
    stream_calls: StreamCalls, first: int, second: int
) -> None:
    worker = Mortal(first, second)
    answer = ask(worker, stream_calls=stream_calls)
    assert (answer["tool_calls"], answer["content"]) == (ROME, "Look.\nDone.")
    assert len(worker.requests) == 4


def test_workers_that_die_for_ever_end_the_request() -> None:
    worker = Mortal(3, 3, 3)
    with pytest.raises(WorkerError) as raised:
        ask(worker)
    assert raised.value.retryable
    assert len(worker.requests) == 4
