"""The main process's side of one request in the pool.

It keeps every step that it sent, so that another process can restart the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

from typing_extensions import override

from ...base.errors import ParserFailedError, PoolAbsentError, ProtocolError
from ...base.limits import MAX_BACKLOG
from ...postprocess.chunk_scheduler import MergeDelays, ScheduledChunk, engine_wait_s
from ...postprocess.messages import Chunk, PostprocessParams, encode
from ..backend import RequestStream
from . import messages


class StreamProcess(Protocol):
    """The process that works on a stream. streams: all that it works on."""

    streams: set[PooledStream]

    def send(self, request: messages.Request) -> None:
        """Send `request` to the process."""


class StreamCallbacks(NamedTuple):
    """Callbacks of a stream.

    wake: there are results to take. report: a parser raised. closed: the request has ended.
    """

    wake: Callable[[], None]
    report: Callable[[ParserFailedError], None]
    closed: Callable[[PooledStream], None]


class PooledStream(RequestStream):
    """Sends the steps of one request to a process and collects the answers.

    processed: number of steps that were processed.
    deaths: number of processes that died in a step of this request. present: number of those
        that died outside of any step while serving this request.
    disabled: where to stop using parsers if the request restarts.
    """

    def __init__(
        self,
        key: int,
        params: PostprocessParams,
        token_ids: list[int],
        delays: MergeDelays,
        callbacks: StreamCallbacks,
        *,
        measure: bool = False,
    ) -> None:
        self.key = key
        self.params = params
        self.deaths = 0
        self.present = 0
        self.processed = 0
        self.disabled: list[messages.DisableParser] = []
        self._token_ids = token_ids
        self._delays = delays
        self._wake, self._report, self._closed = callbacks
        self._measure = measure
        self._process: StreamProcess | None = None
        self._feeds: list[messages.Feed] = []
        self._feeds_by_choice: list[list[messages.Feed]] = [[] for _ in range(params.n)]
        self._seen = [0] * params.n  # by choice: steps whose deltas the client has got
        self._unshown = [0] * params.n  # by choice: characters of these that it has not got
        self._finished: set[int] = set()
        self._flushed = False
        self._results: list[ScheduledChunk] = []
        self._failure: ParserFailedError | PoolAbsentError | None = None
        self._failure_raised = False
        self._room: asyncio.Future[None] | None = None

    @property
    def backlog(self) -> int:
        """Number of steps not yet processed."""
        return len(self._feeds) - self.processed

    @property
    def position(self) -> int:
        """Number of output tokens processed so far."""
        return sum(len(feed.chunk.token_ids) for feed in self._feeds[: self.processed])

    @property
    @override
    def due(self) -> float:
        # The process has already waited: all its results are due.
        fails = self._failure is not None and not self._failure_raised
        return 0.0 if self._results or fails else inf

    @property
    @override
    def idle(self) -> bool:
        return self._failure is not None or self.oldest == inf

    @property
    @override
    def oldest(self) -> float:
        waiting = [
            feeds[seen]
            for index, (feeds, seen) in enumerate(
                zip(self._feeds_by_choice, self._seen, strict=True)
            )
            if index not in self._finished and seen < len(feeds)
        ]
        return min((feed.arrived - feed.age_s for feed in waiting), default=inf)

    @override
    def add(self, chunk: Chunk, now: float, age_s: float = 0.0) -> None:
        if chunk.index in self._finished:
            return
        # An engine delivers many tokens at once if they had to wait. With a slow parser, a step of
        # many tokens would delay other requests and exceed any deadline.
        for step in chunk.split():
            feed = messages.Feed(self.key, step, now, age_s)
            self._feeds.append(feed)
            self._feeds_by_choice[chunk.index].append(feed)
            self._send(feed)

    @override
    def take(self, now: float) -> list[ScheduledChunk]:
        results, self._results = self._results, []
        if not results and self._failure is not None:
            # Without this the stream stays due, and its reader would spin.
            self._failure_raised = True
            raise self._failure
        return results

    @override
    def flush(self, now: float) -> None:
        self._flushed = True
        self._send(messages.Flush(self.key))

    @override
    def engine_wait_s(self, index: int) -> float:
        return engine_wait_s(self.params, self._delays, None)

    @property
    @override
    def full(self) -> bool:
        return self.backlog > MAX_BACKLOG and self._failure is None

    @override
    async def room(self) -> None:
        while self.full:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    @override
    def close(self) -> None:
        self._leave()
        self._closed(self)

    def move(self, process: StreamProcess) -> None:
        """Start the request in `process`, or restart it there if another one had it."""
        self._leave()
        self._process = process
        process.streams.add(self)
        self._send(
            messages.OpenRequest(
                self.key,
                encode(self.params),
                self._token_ids,
                self.processed,
                list(self._seen),
                list(self._unshown),
                list(self.disabled),
                self._measure,
            )
        )
        for feed in self._feeds:
            self._send(feed)
        if self._flushed:
            self._send(messages.Flush(self.key))

    def receive(self, answer: messages.RequestAnswer) -> None:
        """Take an answer from the process.

        Raises `ProtocolError` for a choice or chunks that the request does not have.
        """
        chunks = 0 if isinstance(answer, messages.Failure) else answer.chunks
        if not 0 <= chunks <= len(self._feeds):
            raise ProtocolError(f"an answer for {chunks} of {len(self._feeds)} chunks")
        if isinstance(answer, messages.Progress):
            self.processed = max(self.processed, answer.chunks)
            self._make_room()
        elif isinstance(answer, messages.Result):
            scheduled = answer.scheduled
            if not 0 <= scheduled.index < self.params.n:
                raise ProtocolError(f"a result of choice {scheduled.index} of {self.params.n}")
            self._seen[scheduled.index] = answer.chunks
            self._unshown[scheduled.index] = answer.unshown
            if scheduled.finished:
                self._finished.add(scheduled.index)
            self._results.append(scheduled)
            self._wake()
        else:
            failure = ParserFailedError(
                answer.parser, self.params.response_id, answer.position, answer.reason
            )
            self._report(failure)
            if answer.fatal:
                self.fail(failure)

    def disable_parsers(self, chunks: int | None, reason: str) -> bool:
        """Stop using parsers when the request restarts; return False if it uses none by then.

        chunks: number processed before the guilty step; its choice stops using its parser there.
            None if no step is known: each choice stops after the last chunk that the client has
            got. If that did not help, the restarted request has no parser from the beginning.
        """
        self.deaths = self.present = 0
        if chunks is None:
            left = {index: self._count_seen(index) for index in range(self.params.n)}
        else:
            left = {self._feeds[chunks].chunk.index if chunks < len(self._feeds) else 0: chunks}
        for disabled in self.disabled:
            left.pop(disabled.index, None)
            if not disabled.chunks:
                return False
        self.disabled += [
            messages.DisableParser(index, count, reason)
            for index, count in (left or {0: 0}).items()
        ]
        return True

    def _count_seen(self, index: int) -> int:
        """Return the chunk count that produced all that the client has of a choice; not 0."""
        seen = self._seen[index]
        last = self._feeds_by_choice[index][seen - 1] if seen else None
        numbers = (number for number, feed in enumerate(self._feeds, 1) if feed is last)
        return next(numbers, 1)

    def fail(self, failure: ParserFailedError | PoolAbsentError) -> None:
        """End the request: `take` returns all results, then raises `failure`."""
        self._failure = failure
        self._leave()
        self._make_room()
        self._wake()

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _send(self, request: messages.Request) -> None:
        if self._process is not None:
            self._process.send(request)

    def _leave(self) -> None:
        if self._process is not None:
            self._send(messages.Close(self.key))
            self._process.streams.discard(self)
            self._process = None
