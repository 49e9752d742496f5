"""One process of the pool: the core of many requests, a step of each in turn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from math import ceil, inf

import zmq

from ...parsers.base import ParserFactory
from ...parsers.errors import ParserFailedError
from ...parsers.passthrough import PassthroughParsers
from ...postprocess.chunk_scheduler import ChunkScheduler
from ...tokenization.detokenizer import DetokenizerFactory
from ..backend import InlineBackend
from . import messages

# How long requests are worked on between two looks at the socket; a step that takes longer is not cut.
TURN_S = 0.002
MS_PER_S = 1000


class ParserDisabledError(Exception):
    """The parser's process was killed, or died, while it worked for the request."""


class PoolProcess:
    """Serves the requests of one socket. number: of the process, which names its files."""

    def __init__(
        self,
        detokenizers: DetokenizerFactory,
        parsers: ParserFactory,
        settings: messages.ProcessSettings,
        number: int,
    ) -> None:
        self._detokenizers = detokenizers
        self._parsers = parsers
        self._settings = settings
        self._monitor = messages.StepMonitor(messages.monitor_path(settings.folder, number))
        self._socket: zmq.Socket[bytes] = zmq.Context().socket(zmq.PAIR)
        self._socket.set_hwm(0)
        self._socket.connect(f"ipc://{messages.socket_path(settings.folder, number)}")
        self._requests: dict[int, _Request] = {}
        self._turns: deque[_Request] = deque()  # requests with chunks that wait, each once
        self._answers: list[messages.Answer] = [messages.Ready()]

    def run(self) -> None:
        """Serve until the process is killed."""
        while True:
            if self._answers:
                self._socket.send(messages.encode(self._answers))
                self._answers = []
            self._receive(self._wait_ms())
            self._work(time.monotonic() + TURN_S)
            self._take(time.monotonic())

    def _wait_ms(self) -> int | None:
        if self._turns:
            return 0
        waiting = (
            request.merging.due for request in self._requests.values() if not request.is_behind
        )
        due = min(waiting, default=inf)
        return None if due == inf else max(0, ceil((due - time.monotonic()) * MS_PER_S))

    def _receive(self, timeout_ms: int | None) -> None:
        """Take all that has been sent, after at most so long."""
        while self._socket.poll(timeout_ms):
            for message in messages.decode_requests(self._socket.recv()):
                self._note(message)
            timeout_ms = 0

    def _note(self, message: messages.Request) -> None:
        if isinstance(message, messages.OpenRequest):
            self._open(message)
            return
        request = self._requests.get(message.key)
        if request is None:
            return  # it has failed here, and the main process will soon know
        if isinstance(message, messages.Feed):
            request.queue.append(message)
            if len(request.queue) == 1:
                self._turns.append(request)
        elif isinstance(message, messages.Flush):
            request.flushed = True
            if not request.queue:
                request.merging.flush(time.monotonic())
        else:
            del self._requests[message.key]
            request.queue.clear()

    def _open(self, message: messages.OpenRequest) -> None:
        # A parser that does not survive its first step may not survive being built.
        is_plain = any(not degraded.chunks for degraded in message.degraded)
        self._monitor.begin(message.key, 0)
        try:
            parsers = PassthroughParsers() if is_plain else self._parsers
            settings = self._settings
            backend = InlineBackend(
                self._detokenizers,
                parsers,
                settings.delays,
                settings.on_error,
                self._report(message),
            )
            clock = time.perf_counter if message.measured else None
            merging = backend.start(
                message.params, message.token_ids, time.monotonic(), lambda: None, clock
            )
        except ParserFailedError:
            return
        finally:
            self._monitor.end()
        self._requests[message.key] = _Request(message, merging)

    def _report(self, message: messages.OpenRequest) -> Callable[[ParserFailedError], None]:
        key = message.key
        fatal = self._settings.on_error == "fail"

        def report(failure: ParserFailedError) -> None:
            request = self._requests.get(key)
            is_known = message.replayed > (request.chunks if request is not None else 0)
            if not is_known and not isinstance(failure.cause, ParserDisabledError):
                self._answers.append(
                    messages.Failure(key, failure.parser, failure.position, failure.reason, fatal)
                )

        return report

    def _work(self, until: float) -> None:
        """Do a step of each request in turn, until the time is over or all is done."""
        stepped: dict[int, _Request] = {}
        while self._turns:
            request = self._turns.popleft()
            if not request.queue:
                continue  # closed meanwhile
            feed = request.queue.popleft()
            self._monitor.begin(request.key, request.chunks)
            try:
                request.step(feed)
            except ParserFailedError:
                self._end(request)
            self._monitor.end()
            if request.queue:
                self._turns.append(request)
            elif request.flushed:
                request.merging.flush(time.monotonic())
            stepped[request.key] = request
            if time.monotonic() > until:
                break
        self._answers += [
            messages.Progress(key, request.chunks) for key, request in stepped.items()
        ]

    def _end(self, request: _Request) -> None:
        """Send what waits of a request that has failed, in front of the news of it."""
        failure = self._answers.pop()
        request.merging.flush(time.monotonic())
        self._take_due(request, inf)
        self._answers.append(failure)
        del self._requests[request.key]
        request.queue.clear()

    def _take(self, now: float) -> None:
        for request in self._requests.values():
            if request.merging.due <= now and not request.is_behind:
                self._take_due(request, now)

    def _take_due(self, request: _Request, now: float) -> None:
        for taken in request.merging.take(now):
            self._answers.append(
                messages.Result(request.key, request.of_choice[taken.index], taken)
            )


class _Request:
    """One request. chunks: processed so far. of_choice: the same, by choice."""

    def __init__(self, message: messages.OpenRequest, merging: ChunkScheduler) -> None:
        self.key = message.key
        self.merging = merging
        self.queue: deque[messages.Feed] = deque()
        self.flushed = False
        self.chunks = 0
        self.of_choice = [0] * message.params.n
        self._seen = message.taken
        self._degraded = message.degraded

    @property
    def is_behind(self) -> bool:
        """Whether chunks that the client has seen the deltas of are still to come again."""
        return any(done < seen for done, seen in zip(self.of_choice, self._seen, strict=True))

    def step(self, feed: messages.Feed) -> None:
        """Process one chunk. Raises `ParserFailedError` if that ends the request."""
        index = feed.chunk.index
        self.merging.add(feed.chunk, feed.arrived, feed.age_s)
        self.chunks += 1
        self.of_choice[index] += 1
        if self.of_choice[index] == self._seen[index]:
            self.merging.forget(index)
        for degraded in self._degraded:
            if degraded.chunks == self.chunks:
                self.merging.degrade(
                    degraded.index, ParserDisabledError(degraded.reason), time.monotonic()
                )
