"""One request that is post-processed in the pool, seen from the main process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

import msgspec

from ...parsers.errors import ParserFailedError
from ...postprocess.chunk_scheduler import ScheduledChunk, engine_wait_s
from ...postprocess.messages import Chunk, PostprocessParams
from . import messages

if TYPE_CHECKING:
    from .process_handle import ProcessHandle
    from .supervisor import PoolSupervisor

# Chunks that may wait for their process before the engine's are left where they are;
# the engine then hands them over together.
MAX_BEHIND = 256


class PooledStream:
    """See `RequestStream`. Keeps all chunks of its request, so that another process can begin it again.

    behind: chunks that are not processed yet. processed: chunks that are.
    deaths: processes that died while they worked on it. degraded, measured: see `messages.OpenRequest`.
    """

    def __init__(
        self,
        pool: PoolSupervisor,
        key: int,
        params: PostprocessParams,
        token_ids: list[int],
        wake: Callable[[], None],
        *,
        measured: bool,
    ) -> None:
        self.key = key
        self.params = params
        self.deaths = 0
        self.processed = 0
        self.degraded: list[messages.DisableParser] = []
        self._pool = pool
        self._token_ids = token_ids
        self._wake = wake
        self._measured = measured
        self._process: ProcessHandle | None = None
        self._feeds: list[messages.Feed] = []
        self._added: list[list[messages.Feed]] = [[] for _ in range(params.n)]  # by choice
        self._taken = [0] * params.n
        self._finished: set[int] = set()
        self._flushed = False
        self._results: list[ScheduledChunk] = []
        self._failure: ParserFailedError | None = None
        self._is_told = False
        self._room: asyncio.Future[None] | None = None

    @property
    def behind(self) -> int:
        """See above."""
        return len(self._feeds) - self.processed

    @property
    def position(self) -> int:
        """Output tokens processed so far."""
        return sum(len(feed.chunk.token_ids) for feed in self._feeds[: self.processed])

    @property
    def next_index(self) -> int:
        """The choice of the chunk that is processed next."""
        return self._feeds[self.processed].chunk.index if self.behind else 0

    @property
    def due(self) -> float:
        """See `RequestStream`: whatever comes from the process is due."""
        fails = self._failure is not None and not self._is_told
        return 0.0 if self._results or fails else inf

    @property
    def idle(self) -> bool:
        """See `RequestStream`."""
        return self._failure is not None or self.oldest == inf

    @property
    def oldest(self) -> float:
        """See `RequestStream`."""
        waiting = [
            added[taken]
            for index, (added, taken) in enumerate(zip(self._added, self._taken, strict=True))
            if index not in self._finished and taken < len(added)
        ]
        return min((feed.arrived - feed.age_s for feed in waiting), default=inf)

    def add(self, chunk: Chunk, now: float, age_s: float = 0.0) -> None:
        """See `RequestStream`."""
        if chunk.index in self._finished:
            return
        for step in steps(chunk):
            feed = messages.Feed(self.key, step, now, age_s)
            self._feeds.append(feed)
            self._added[chunk.index].append(feed)
            self._send(feed)

    def take(self, now: float) -> list[ScheduledChunk]:
        """See `RequestStream`."""
        results, self._results = self._results, []
        if not results and self._failure is not None:
            self._is_told = True  # else it would be due for ever, and whoever waits for nothing to be due would spin
            raise self._failure
        return results

    def flush(self, now: float) -> None:
        """See `RequestStream`."""
        self._flushed = True
        self._send(messages.Flush(self.key))

    def engine_wait_s(self, index: int) -> float:
        """See `RequestStream`."""
        return engine_wait_s(self.params, self._pool.settings.delays, None)

    async def room(self) -> None:
        """See `RequestStream`."""
        while self.behind > MAX_BEHIND and self._failure is None:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def close(self) -> None:
        """See `RequestStream`."""
        self._leave()
        self._pool.closed(self)

    def move(self, process: ProcessHandle) -> None:
        """Begin in a process, or begin again in another one."""
        self._leave()
        self._process = process
        process.streams.add(self)
        self._send(
            messages.OpenRequest(
                self.key,
                self.params,
                self._token_ids,
                self.processed,
                list(self._taken),
                list(self.degraded),
                self._measured,
            )
        )
        for feed in self._feeds:
            self._send(feed)
        if self._flushed:
            self._send(messages.Flush(self.key))

    def answer(self, answer: messages.Progress | messages.Result | messages.Failure) -> None:
        """Take what the process says."""
        if isinstance(answer, messages.Progress):
            self.processed = max(self.processed, answer.chunks)
            room, self._room = self._room, None
            if room is not None and not room.done():
                room.set_result(None)
        elif isinstance(answer, messages.Result):
            taken = answer.taken
            self._taken[taken.index] = answer.chunks
            if taken.finished:
                self._finished.add(taken.index)
            self._results.append(taken)
            self._wake()
        else:
            failure = ParserFailedError(
                answer.parser, self.params.response_id, answer.position, answer.reason
            )
            self._pool.failed(failure)
            if answer.fatal:
                self.fail(failure)

    def fail(self, failure: ParserFailedError) -> None:
        """End the request with `failure`."""
        self._failure = failure
        self._leave()
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._wake()

    def _send(self, request: messages.Request) -> None:
        if self._process is not None:
            self._process.send(request)

    def _leave(self) -> None:
        if self._process is not None:
            self._send(messages.Close(self.key))
            self._process.streams.discard(self)
            self._process = None


def steps(chunk: Chunk) -> list[Chunk]:
    """Return `chunk` in chunks of one token, the steps of a process.

    An engine whose tokens wait hands over many at once; with a slow parser a step of
    many would hold up the others and overrun any deadline.
    """
    count = len(chunk.token_ids)
    if count <= 1:
        return [chunk]
    return [
        msgspec.structs.replace(
            chunk,
            token_ids=[token_id],
            finish_reason=chunk.finish_reason if number == count else None,
            stop_reason=chunk.stop_reason if number == count else None,
            logprobs=chunk.logprobs and chunk.logprobs[number - 1 : number],
            top_logprobs=chunk.top_logprobs and chunk.top_logprobs[number - 1 : number],
        )
        for number, token_id in enumerate(chunk.token_ids, 1)
    ]
