"""Post-processes the streams of plain workers in a frontend, around the routed engine.

A stream is read as it is on a worker. Transformers' own parser of a description runs in processes
of a pool, and a malformed call is generated again: by a second request to the same routed engine.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from typing import cast

from typing_extensions import override

from ...base.json_types import JsonObject
from ...base.log import get_logger
from ...frontend.chat_model import WrapEngine
from ...frontend.metrics import LocalParsing
from ...frontend.response.worker_stream import is_lost, read_outputs
from ...frontend.turns.turn_keeper import LocalFactories
from ...parsers.format import Format
from ...postprocess.settings import MERGE_DELAYS, PostprocessSettings, StreamCalls
from ...worker.backend import InlineBackend
from ...worker.engine_request import EngineRequestHandle
from ...worker.regeneration import Attempt, AttemptLostError, Regenerator
from ...worker.request_stream import WorkerPostprocessor, read_params
from .contexts import stop_together
from .types import AnnotatedItem, Context, RoutedEngine, WorkerContext

logger = get_logger(__name__)


class PooledEngine(RoutedEngine):
    """An engine of plain workers, whose chunks become those of workers that post-process."""

    def __init__(self, postprocessor: WorkerPostprocessor, engine: RoutedEngine) -> None:
        self._postprocessor = postprocessor
        self._engine = engine

    @override
    async def generate(
        self, request: JsonObject, *, context: Context
    ) -> AsyncIterator[AnnotatedItem | JsonObject]:
        items = await self._engine.generate(request, context=context)
        params = read_params(request)
        if params is None:
            return items
        handle = StopAtTheEnd(params.n, context)
        outputs = read_outputs(items)
        chunks = self._postprocessor.stream(outputs, params, request["token_ids"], handle)
        return handle.stop_after(chunks)


class StopAtTheEnd(EngineRequestHandle):
    """Stops a plain worker after its `n` choices if one has ended early, since none stops alone."""

    def __init__(self, n: int, context: Context) -> None:
        self._unfinished = n
        self._context = context
        self._ended_early = False

    @override
    def abort(self, index: int) -> Coroutine[object, None, None]:
        self._ended_early = True  # at once: the last chunk may leave before a coroutine runs
        return asyncio.sleep(0)

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        """Do nothing: the request has been sent."""

    async def stop_after(
        self, chunks: AsyncGenerator[JsonObject, None]
    ) -> AsyncIterator[JsonObject]:
        """Yield `chunks`, and stop the worker with the last one."""
        async with aclosing(chunks):
            async for chunk in chunks:
                self._unfinished -= "finish_reason" in chunk
                if self._ended_early and not self._unfinished:
                    self._context.stop_generating()
                yield chunk


def regenerate(
    format_: Format,
    local_factories: LocalFactories,
    parsing: LocalParsing,
    stream_calls: StreamCalls | None,
    limit: int,
) -> WrapEngine:
    """Return what has the malformed calls of one model generated again.

    format_: of its calls. parsing: counts them. stream_calls: as of `PostprocessSettings`.
    limit: how many workers may go on in place of those that died within attempts of a request.
    """
    detokenizers, parsers = local_factories()
    settings = PostprocessSettings(malformed_calls="regenerate", delays=MERGE_DELAYS["lowest"])
    backend = InlineBackend(detokenizers, parsers, settings, parsing.report)
    count = parsing.count_regenerated(parsers.name)
    streams = stream_calls == "arguments"
    regenerator = Regenerator(format_, detokenizers.read, count, streams)
    return functools.partial(RegeneratingEngine, WorkerPostprocessor(backend), regenerator, limit)


class RegeneratingEngine(RoutedEngine):
    """An engine of plain workers, whose malformed calls are generated again.

    Requests whose calls cannot be are post-processed as without it.
    """

    def __init__(
        self,
        postprocessor: WorkerPostprocessor,
        regenerator: Regenerator,
        limit: int,
        engine: RoutedEngine,
    ) -> None:
        self._postprocessor = postprocessor
        self._regenerator = regenerator
        self._limit = limit
        self._engine = engine

    @override
    async def generate(
        self, request: JsonObject, *, context: Context
    ) -> AsyncIterator[AnnotatedItem | JsonObject]:
        whole = cast(WorkerContext, context)

        def start(attempt: JsonObject, ending: str) -> Attempt:
            # It is stopped alone: the client's request goes on.
            own = whole.detached(whole.id() + ending)
            outputs = self._read(attempt, own)
            if ending:  # Dynamo moves the first request itself
                outputs = moves.watch(outputs, own)
            return Attempt(stop_together(outputs, whole, own), StopAlone(own))

        moves = Moves(self._limit)
        params, token_ids = read_params(request), request["token_ids"]
        again = None
        if params is not None:
            again = self._regenerator.begin(params, request, token_ids, start)
        if params is None or again is None:
            return await self._engine.generate(request, context=context)
        outputs, handle = start(request, "")
        return self._postprocessor.stream(outputs, params, token_ids, handle, again=again)

    async def _read(
        self, request: JsonObject, context: Context
    ) -> AsyncGenerator[JsonObject, None]:
        async for output in read_outputs(await self._engine.generate(request, context=context)):
            yield output


class Moves:
    """The moves of one request to other workers, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    async def watch(
        self, outputs: AsyncIterator[JsonObject], context: Context
    ) -> AsyncGenerator[JsonObject, None]:
        """Yield the outputs of an attempt. Raises `AttemptLostError` if its worker is gone."""
        has_ended = False
        try:
            async for output in outputs:
                has_ended = output.get("finish_reason") is not None
                yield output
        except Exception as error:
            if has_ended:
                return
            if not is_lost(error) or not self._left:
                raise
            self._left -= 1
            logger.warning("request %s: its worker is gone: %s", context.id(), error)
            raise AttemptLostError(str(error)) from error


class StopAlone(EngineRequestHandle):
    """Stops a plain worker's request of one choice, which has a `context` of its own."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @override
    async def abort(self, index: int) -> None:
        self._context.stop_generating()

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        """Do nothing: the request has been sent."""
