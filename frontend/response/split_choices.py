"""Sends a request with several choices as one request for each.

Then a malformed call of each is generated again, and Dynamo moves each to another worker if its own
dies. The client sees one response: choices keep their index, and usage counts all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import cast

import msgspec

from ...base.json_types import JsonObject
from ...engines.dynamo.contexts import stop_together
from ...engines.dynamo.types import Context, RoutedEngine, WorkerContext
from ...postprocess.messages import (
    KEY,
    PostprocessedChunk,
    PostprocessParams,
    Usage,
    encode,
    read,
)
from .worker_stream import read_outputs

Arrived = asyncio.Queue[tuple[int, JsonObject | Exception | None]]
"""The outputs of choices, each with its index; then an error, or None."""


class SplitChoices(RoutedEngine):
    """Routes one request with several choices. engine: routes. params: of all choices."""

    def __init__(self, engine: RoutedEngine, params: PostprocessParams) -> None:
        self._engine = engine
        self._params = params
        self._usages: dict[int, Usage] = {}
        self._finished: set[int] = set()

    async def generate(self, request: JsonObject, *, context: Context) -> AsyncIterator[JsonObject]:
        """Return the outputs of all choices, as they come."""
        return self._generate(request, cast(WorkerContext, context))

    async def _generate(
        self, request: JsonObject, context: WorkerContext
    ) -> AsyncIterator[JsonObject]:
        count = self._params.n
        arrived: Arrived = asyncio.Queue(count)
        has_begun = asyncio.Event()
        tasks = [
            asyncio.create_task(self._read(index, request, context, arrived, has_begun))
            for index in range(count)
        ]
        try:
            while count:
                index, found = await arrived.get()
                if isinstance(found, Exception):
                    raise found
                if found is None:
                    count -= 1
                else:
                    yield self._place(found, index)
        finally:
            for task in tasks:
                task.cancel()

    async def _read(
        self,
        index: int,
        request: JsonObject,
        context: WorkerContext,
        arrived: Arrived,
        has_begun: asyncio.Event,
    ) -> None:
        """Put the outputs of one choice, and None at their end.

        has_begun: whether the first choice has, so that its prompt is in the engine's cache.
        """
        if index:
            await has_begun.wait()
        own = context.detached(f"{context.id()}-choice{index}")
        try:
            items = await self._engine.generate(self._choose(request, index), context=own)
            async with aclosing(stop_together(items, context, own)) as items:
                async for output in read_outputs(items):
                    has_begun.set()
                    await arrived.put((index, output))
            await arrived.put((index, None))
        except Exception as error:  # noqa: BLE001 - `_generate` raises it
            await arrived.put((index, error))
        finally:
            has_begun.set()
            own.stop_generating()

    def _choose(self, request: JsonObject, index: int) -> JsonObject:
        """Return the request for one choice, with the seed that vLLM gives it."""
        params = msgspec.structs.replace(self._params, n=1)
        sampling: JsonObject = {**request["sampling_options"], "n": 1}
        if sampling.get("seed") is not None:
            sampling["seed"] = wrap_seed(sampling["seed"] + index)
        extra_args = {**request["extra_args"], KEY: encode(params)}
        return {**request, "sampling_options": sampling, "extra_args": extra_args}

    def _place(self, output: JsonObject, index: int) -> JsonObject:
        """Return an output of a choice as one of the whole request."""
        placed = {**output, "index": index}
        if index:
            placed.pop("engine_data", None)  # of the prompt, which the first choice has as well
        extra_args = output.get("extra_args") or {}
        processed = read(PostprocessedChunk, extra_args.get(KEY))
        if processed is None:
            return placed  # of a plain worker
        for delta in processed.deltas:
            delta.index = index
            if delta.finish_reason is not None:
                self._finished.add(index)
        if processed.usage is not None:
            self._usages[index] = processed.usage
            shows = self._params.continuous_usage_stats or len(self._finished) == self._params.n
            processed.usage = self._add_usages() if shows else None
        placed["extra_args"] = {**extra_args, KEY: encode(processed)}
        return placed

    def _add_usages(self) -> Usage:
        """Return the usage of all choices; the first was the one that read the prompt."""
        usages = self._usages.values()
        first = self._usages[min(self._usages)]
        return msgspec.structs.replace(
            first,
            completion_tokens=sum(usage.completion_tokens for usage in usages),
            reasoning_tokens=sum(usage.reasoning_tokens for usage in usages),
        )


def wrap_seed(seed: int) -> int:
    """Return a seed as Dynamo carries it: with a sign and 63 bits."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
