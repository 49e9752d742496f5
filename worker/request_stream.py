"""One request's way through the worker: outputs of the engine in, chunks with their meaning out, in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from math import inf
from typing import Protocol

from ..parsers.errors import ParserFailedError
from ..postprocess.chunk_scheduler import ScheduledChunk
from ..postprocess.engine_output import JsonDict, engine_error, parse_engine_output
from ..postprocess.messages import KEY, PostprocessedChunk, PostprocessParams, encode
from ..postprocess.stage_timing import Clock, StageTime
from .backend import PostprocessBackend, RequestStream
from .metrics import Outcome, WorkerMetrics

# The part of a new measurement in the mean time between tokens.
SMOOTHING = 0.2
MAX_ENGINE_TOKENS = 256
# In an output of the engine, but not in what goes on: they are in the deltas.
TAKEN_OUT = ("token_ids", "log_probs", "top_logprobs", "finish_reason", "stop_reason")
CUT = ("length", "content_filter")


class EngineRequestHandle(Protocol):
    """What can be asked of the engine about one running request."""

    async def abort(self, index: int) -> None:
        """End the work on a choice."""
        ...

    def set_stream_interval(self, index: int, tokens: int) -> None:
        """Hand over the tokens of a choice in groups of about this many from now on, as far as the engine can."""
        ...


class RequestPump:
    """Pumps one request's outputs into its work and yields what that gives.

    The engine is read by a task of its own, so that what waits can go out while the engine pauses.
    """

    def __init__(
        self,
        backend: PostprocessBackend,
        params: PostprocessParams,
        token_ids: list[int],
        engine: EngineRequestHandle,
        metrics: WorkerMetrics,
    ) -> None:
        self._backend = backend
        self._params = params
        self._token_ids = token_ids
        self._engine = engine
        self._metrics = metrics
        self._clock: Clock | None = None  # to measure this request with
        self._loop: asyncio.AbstractEventLoop
        self._stream: RequestStream | None = None
        self._paces = [TokenRate() for _ in range(params.n)]
        self._open = set(range(params.n))  # choices that the engine is working on
        self._unfinished = params.n  # choices whose end has not been sent
        self._cancelled = False
        self._fields: dict[int, JsonDict] = {}  # what the engine says besides tokens, by choice
        self._pumped = False
        self._failure: Exception | JsonDict | None = None
        self._waker: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = inf

    @property
    def oldest(self) -> float:
        """See `RequestStream`."""
        return inf if self._stream is None else self._stream.oldest

    async def run(self, outputs: AsyncIterator[JsonDict]) -> AsyncGenerator[JsonDict, None]:
        """Yield the request's chunks; `outputs` are read to the very end, so that the engine's handler cleans up.

        Raises what `outputs` raises, behind everything that was generated before.
        """
        # Here, because Dynamo calls its handlers from a thread without a loop.
        self._loop = asyncio.get_running_loop()
        self._clock = self._metrics.started(self)
        pump = self._loop.create_task(self._pump(outputs))
        try:
            while not self._is_done():
                for scheduled in self._take():
                    if scheduled.ended_early:
                        await self._abort(scheduled.index)
                    yield self._chunk(scheduled)
                await self._sleep()
            if self._failure is not None:
                yield await self._failed(self._failure)
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._set_alarm(inf)
            pump.cancel()
            if self._stream is not None:
                self._stream.close()
            self._metrics.ended(self, self._outcome())

    async def _pump(self, outputs: AsyncIterator[JsonDict]) -> None:
        try:
            now = self._loop.time()
            stream = self._stream = self._backend.start(
                self._params, self._token_ids, now, self._wake, self._clock
            )
            if stream.due > now:
                await self._read(outputs, stream)
            # Else what a worker that died had generated was all.
        except Exception as error:  # noqa: BLE001 - whatever it is, the client's side of the request is to see it
            self._failure = error
        finally:
            self._pumped = True
            if self._stream is not None:
                self._stream.flush(self._loop.time())
            self._wake()

    async def _read(self, outputs: AsyncIterator[JsonDict], stream: RequestStream) -> None:
        metrics = self._metrics
        async for output in outputs:
            if engine_error(output) is not None:
                self._failure = output
                continue
            chunk = parse_engine_output(output)
            now = self._loop.time()
            tokens = len(chunk.token_ids)
            metrics.outputs += 1
            metrics.tokens += tokens
            pace = self._paces[chunk.index]
            stream.add(chunk, now, pace.age_s(tokens, now))
            self._fields.setdefault(chunk.index, {}).update(output)
            if chunk.finish_reason is not None:
                # A choice that we had the engine end is not open any more.
                self._cancelled |= (
                    output["finish_reason"] == "cancelled" and chunk.index in self._open
                )
                self._open.discard(chunk.index)
            elif (group := pace.next_group(stream.engine_wait_s(chunk.index))) is not None:
                self._engine.set_stream_interval(chunk.index, group)
            if stream.due <= now:
                self._wake()
            elif stream.due < self._alarm_at and self._waker is not None:
                self._set_alarm(stream.due)
            await stream.room()

    def _is_done(self) -> bool:
        return self._pumped and (
            self._stream is None or (self._stream.idle and self._stream.due == inf)
        )

    def _take(self) -> list[ScheduledChunk]:
        try:
            return self._stream.take(self._loop.time()) if self._stream is not None else []
        except ParserFailedError as failure:
            self._failure = failure
            self._pumped = True
            return []

    def _outcome(self) -> Outcome:
        if self._failure is not None:
            return "failed"
        return "cancelled" if self._cancelled or self._unfinished else "finished"

    async def _failed(self, failure: Exception | JsonDict) -> JsonDict:
        """Return the request's last chunk after `failure`; raises it if it is the engine's own."""
        if isinstance(failure, ParserFailedError):
            for index in tuple(self._open):
                await self._abort(index)
            return {"index": 0, "token_ids": [], "finish_reason": f"error: {failure}"}
        if isinstance(failure, Exception):
            raise failure
        return failure

    async def _abort(self, index: int) -> None:
        """End the engine's work on a choice, unless it has."""
        if index in self._open:
            self._open.discard(index)
            await self._engine.abort(index)

    async def _sleep(self) -> None:
        """Wait until something is due, or all is done."""
        due = self._stream.due if self._stream is not None else inf
        if due > self._loop.time() and not self._is_done():
            self._waker = self._loop.create_future()
            self._set_alarm(due)
            await self._waker

    def _wake(self) -> None:
        waker, self._waker = self._waker, None
        if waker is not None and not waker.done():
            waker.set_result(None)

    def _set_alarm(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_at = at
        if at < inf:
            self._alarm = self._loop.call_at(at, self._wake)

    def _chunk(self, scheduled: ScheduledChunk) -> JsonDict:
        """Return a chunk of Dynamo's form, with what its tokens mean in it."""
        chunk = self._fields.pop(scheduled.index, {})
        for name in TAKEN_OUT:
            chunk.pop(name, None)
        chunk["index"] = scheduled.index
        chunk["token_ids"] = scheduled.token_ids
        if scheduled.finished:
            self._unfinished -= 1
            last = scheduled.deltas[-1]
            # What the client sees is tool_calls, say; Dynamo knows the engines' words only.
            chunk["finish_reason"] = last.finish_reason if last.finish_reason in CUT else "stop"
            if last.stop_reason is not None:
                chunk["stop_reason"] = last.stop_reason
        extra_args = chunk["extra_args"] = chunk.get("extra_args") or {}
        post = PostprocessedChunk(deltas=scheduled.deltas, usage=scheduled.usage)
        extra_args[KEY] = (
            encode(post) if self._clock is None else self._measured(post, scheduled, self._clock)
        )
        self._metrics.took(scheduled, streams=self._params.stream)
        return chunk

    def _measured(self, post: PostprocessedChunk, scheduled: ScheduledChunk, clock: Clock) -> str:
        began = clock()
        text = encode(post)
        scheduled.times.append(StageTime("encode", clock() - began, len(scheduled.token_ids)))
        return text


class TokenRate:
    """How fast the tokens of a choice come, and in what groups the engine should hand them over."""

    __slots__ = ("_group", "_last", "_token_s")

    def __init__(self) -> None:
        self._last = 0.0
        self._token_s = 0.0
        self._group = 1

    def age_s(self, tokens: int, now: float) -> float:
        """Note that so many tokens came now; return how long the first of them may have waited in the engine."""
        last, self._last = self._last, now
        if not last or not tokens:
            return 0.0
        token_s = (now - last) / tokens
        self._token_s = (
            token_s if not self._token_s else self._token_s + SMOOTHING * (token_s - self._token_s)
        )
        return token_s * (tokens - 1) if self._group > 1 else 0.0

    def next_group(self, wait_s: float) -> int | None:
        """Return how many tokens the engine should collect, None for as many as now."""
        group = max(1, min(MAX_ENGINE_TOKENS, int(wait_s / self._token_s))) if self._token_s else 1
        # Down at once, for time bounds; up in steps, since every change has its price.
        if group >= self._group and group < 2 * self._group:
            return None
        self._group = group
        return group
