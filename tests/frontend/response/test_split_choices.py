"""A request with several choices is sent as one request for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from backedge.base.json_types import JsonObject
from backedge.frontend.response.split_choices import SplitChoices, wrap_seed
from backedge.frontend.response.worker_stream import StreamReader, WorkerError
from backedge.parsers.base import ParserNames
from backedge.postprocess.chunk_scheduler import ChunkScheduler
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.engine_output import parse_engine_output
from backedge.postprocess.messages import KEY, PostprocessParams, encode, read
from backedge.postprocess.postprocessor import Postprocessor
from backedge.postprocess.settings import MERGE_DELAYS
from backedge.worker.chunk_writer import PostprocessedWriter

from tests.engines.dynamo.test_plain_workers import Request
from tests.frontend.doubles import Annotated
from tests.postprocess.test_call_hold import declare
from tests.support import encode as encode_text
from tests.support import params, tiny_detokenizers, tiny_parsers

PROMPT = [1, 2, 3]
TEXTS = ("One.", "Two, a longer one.", "Three.")


class Worker:
    """Post-processes one text for each request, by its seed. fails: at the text of this index."""

    def __init__(self, *, plain: bool = False, fails: int | None = None) -> None:
        self._plain = plain
        self._fails = fails
        self.requests: list[JsonObject] = []
        self.contexts: list[Request] = []

    async def generate(self, request: JsonObject, *, context: Any) -> AsyncIterator[Annotated]:
        self.requests.append(request)
        self.contexts.append(context)
        return self._write(request, request["sampling_options"]["seed"])

    async def _write(self, request: JsonObject, index: int) -> AsyncIterator[Annotated]:
        asked = read(PostprocessParams, request["extra_args"][KEY])
        assert asked is not None
        post = Postprocessor(asked, tiny_detokenizers(), tiny_parsers(ParserNames("hermes")))
        scheduler, writer = ChunkScheduler(post, MERGE_DELAYS["lowest"]), PostprocessedWriter()
        usage = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": index}}
        for token_id in [*encode_text(TEXTS[index]), None]:
            await asyncio.sleep(0)
            if index == self._fails:
                raise ConnectionError("Unavailable: it is gone")
            output: JsonObject = {"index": 0, "token_ids": [] if token_id is None else [token_id]}
            if token_id is None:
                output |= {"finish_reason": "stop", "completion_usage": usage}
            if self._plain:
                yield Annotated(output)
                continue
            scheduler.add(parse_engine_output(output), 0.0)
            for scheduled in scheduler.take(9.0):
                yield Annotated(writer.write(scheduled))


async def ask(worker: Worker, whole: Request, **fields: Any) -> list[Any]:
    """Return what the frontend got of the worker."""
    asked = params(prompt_length=len(PROMPT), parser=declare(), n=len(TEXTS), **fields)
    factories = (tiny_detokenizers(), tiny_parsers(ParserNames("hermes")))
    reader = StreamReader(asked, lambda: Postprocessor(asked, *factories, prompt_token_ids=PROMPT))
    request = {
        "token_ids": PROMPT,
        "sampling_options": {"n": len(TEXTS), "seed": 0},
        "extra_args": {KEY: encode(asked)},
    }
    engine = SplitChoices(worker, asked)
    return [found async for found in reader.read(engine, request, whole)]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("stream", [True, False])
def test_the_client_sees_one_response(stream: bool, plain: bool) -> None:
    worker = Worker(plain=plain)
    found = asyncio.run(ask(worker, Request(), stream=stream))
    for index, text in enumerate(TEXTS):
        deltas = [one for _, processed in found for one in processed.deltas if one.index == index]
        whole = aggregate_deltas(deltas)
        assert (whole.delta.content, whole.finish_reason) == (text, "stop")
        tokens = [id_ for chunk, _ in found if chunk.index == index for id_ in chunk.token_ids]
        assert tokens == encode_text(text)
    usages = [processed.usage for _, processed in found if processed.usage is not None]
    [usage] = usages
    assert usage is found[-1][1].usage
    assert usage.prompt_tokens == len(PROMPT)
    assert usage.completion_tokens == sum(len(encode_text(text)) for text in TEXTS)
    # The engine gives each choice its own seed.
    assert [one["sampling_options"] for one in worker.requests] == [
        {"n": 1, "seed": index} for index in range(len(TEXTS))
    ]
    assert len({context.id() for context in worker.contexts}) == len(TEXTS)


@pytest.mark.parametrize(
    ("seed", "wrapped"), [(5, 5), (-5, -5), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, -(1 << 63))]
)
def test_seeds_have_64_bits(seed: int, wrapped: int) -> None:
    assert wrap_seed(seed) == wrapped


def test_usage_grows_with_each_chunk_where_a_client_asks_for_it() -> None:
    found = asyncio.run(ask(Worker(), Request(), continuous_usage_stats=True))
    counts = [processed.usage.completion_tokens for _, processed in found]
    assert counts == sorted(counts)
    assert counts[-1] == sum(len(encode_text(text)) for text in TEXTS)


def test_the_other_choices_begin_once_the_first_has() -> None:
    class Slow(Worker):
        async def generate(self, request: JsonObject, *, context: Any) -> AsyncIterator[Annotated]:
            items = await super().generate(request, context=context)
            assert begun or len(self.requests) == 1

            async def follow() -> AsyncIterator[Annotated]:
                async for item in items:
                    begun.append(item)
                    yield item

            return follow()

    begun: list[Annotated] = []
    assert asyncio.run(ask(Slow(), Request()))


@pytest.mark.parametrize("index", range(len(TEXTS)))
def test_a_choice_that_fails_ends_the_response_and_the_others(index: int) -> None:
    async def run() -> None:
        worker = Worker(fails=index)
        with pytest.raises(WorkerError, match="it is gone") as raised:
            await ask(worker, Request())
        assert raised.value.retryable
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert all(context.is_stopped() for context in worker.contexts)

    asyncio.run(run())


def test_a_client_that_leaves_stops_all() -> None:
    async def run() -> None:
        worker, whole = Worker(), Request()
        task = asyncio.create_task(ask(worker, whole))
        while len(worker.contexts) < len(TEXTS):  # noqa: ASYNC110 - the worker has no event
            await asyncio.sleep(0)
        whole.stop_generating()
        await task
        for _ in range(9):
            await asyncio.sleep(0)
        assert all(context.is_stopped() for context in worker.contexts)

    asyncio.run(run())
