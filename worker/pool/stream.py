"""The main process's side of one request in the pool.

It keeps every step that it sent, so that another process can restart the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from typing_extensions import override

from ...base.errors import ParserFailedError, PoolAbsentError, ProtocolError
from ...base.limits import MAX_BACKLOG
from ...postprocess.chunk_scheduler import ScheduledChunk, engine_wait_s
from ...postprocess.fallback import Report
from ...postprocess.messages import Chunk, encode
from ...postprocess.settings import MergeDelays
from ..backend import NewRequest, RequestStream
from . import messages
from .process_handle import ProcessHandle


class PooledStream(RequestStream):
    """Sends the steps of one request to a process and collects the answers.

    processed: number of steps that were processed. quick: number of those before the first long
        one, which made other requests move; None: all were short.
    deaths: number of processes that died in a step of this request, or outside of any step while
        they served it.
    report: called with each parser that raised. on_closed: called when the request has ended.
    """

    def __init__(
        self,
        key: int,
        new: NewRequest,
        delays: MergeDelays,
        report: Report,
        on_closed: Callable[[PooledStream], None],
    ) -> None:
        self.key = key
        self.params = params = new.params
        self.deaths = 0
        self.processed = 0
        self.quick: int | None = None
        self._new = new
        self._delays = delays
        self._report = report
        self._on_closed = on_closed
        self._process: ProcessHandle | None = None
        self._feeds: list[messages.Feed] = []
        self._feeds_by_choice: list[list[messages.Feed]] = [[] for _ in range(params.n)]
        self._seen = [0] * params.n  # by choice: steps whose tokens the client has got
        self._shown = [0] * params.n  # by choice: steps up to the last that gave it a delta
        self._shown_of_all = 0  # the same, counted in the steps of all choices
        self._parsed: int | None = None  # steps after which parsers are no longer used
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
    def room(self) -> asyncio.Future[None] | None:
        if self.backlog <= MAX_BACKLOG or self._failure is not None:
            return None
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()
        return self._room

    @override
    def close(self) -> None:
        self._leave()
        self._on_closed(self)

    def move(self, process: ProcessHandle) -> None:
        """Start the request in `process`, or restart it there if another one had it."""
        self._leave()
        self._process = process
        process.keys.add(self.key)
        self._send(
            messages.OpenRequest(
                self.key,
                encode(self.params),
                list(self._new.token_ids),
                self.processed,
                list(self._seen),
                list(self._shown),
                self._parsed,
                # The process measures with a clock of its own.
                measure=self._new.clock is not None,
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
            if scheduled.deltas:
                self._shown[scheduled.index], self._shown_of_all = answer.chunks, answer.of_all
            if scheduled.finished:
                self._finished.add(scheduled.index)
            self._results.append(scheduled)
            self._new.wake()
        else:
            failure = ParserFailedError(
                answer.parser, self.params.response_id, answer.position, answer.reason
            )
            self._report(failure)
            if answer.fatal:
                self.fail(failure)

    def leave_parsers(self) -> bool:
        """Restart without parsers after the quick steps; False if nothing is left to try.

        The client keeps what it has got. If the repetition of these steps was too much, restart
        without parsers after those that gave the client something; if that was too much as well,
        without any parser. Then what a parser held of the last step's text is missing.
        """
        before, shown = self._parsed, self._shown_of_all
        if before is None:
            self._parsed = self.processed if self.quick is None else max(self.quick, shown)
        else:
            self._parsed = shown if shown < before else 0
        self.deaths = 0
        return self._parsed != before

    def fail(self, failure: ParserFailedError | PoolAbsentError) -> None:
        """End the request: `take` returns all results, then raises `failure`."""
        self._failure = failure
        self._leave()
        self._make_room()
        self._new.wake()

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
            self._process.keys.discard(self.key)
            self._process = None
