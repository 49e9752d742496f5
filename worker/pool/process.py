"""A pool process: post-processes many requests, one step of each in turn."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from math import ceil, inf

import zmq

from ...base.errors import ParserFailedError, ProtocolError
from ...base.memory_limit import limit_memory
from ...parsers.base import ParserFactory
from ...parsers.passthrough import PassthroughParsers
from ...postprocess.chunk_scheduler import ChunkScheduler
from ...postprocess.fallback import Report
from ...postprocess.messages import PostprocessParams, decode
from ...postprocess.settings import PostprocessSettings
from ...tokenization.detokenizer import DetokenizerFactory
from ..backend import InlineBackend, NewRequest
from . import messages
from .current_step import StepMonitor

# Time for steps between two reads of the socket; a longer step is not interrupted.
TURN_S = 0.002
MS_PER_S = 1000


class ParserDisabledError(Exception):
    """A parser is no longer used because its process died or was killed while it worked."""


def open_socket(folder: str, number: int) -> zmq.Socket[bytes]:
    """Return the socket that connects process `number` to the supervisor."""
    opened: zmq.Socket[bytes] = zmq.Context().socket(zmq.PAIR)
    opened.set_hwm(0)
    opened.connect(f"ipc://{messages.socket_path(folder, number)}")
    return opened


class PoolProcess:
    """Serves the requests that arrive through `socket`."""

    def __init__(
        self,
        detokenizers: DetokenizerFactory,
        parsers: ParserFactory,
        settings: PostprocessSettings,
        monitor: StepMonitor,
        socket: zmq.Socket[bytes],
    ) -> None:
        self._detokenizers = detokenizers
        self._parsers = parsers
        self._settings = settings
        self._monitor = monitor
        self._socket = socket
        self._requests: dict[int, _Request] = {}
        self._turns: deque[_Request] = deque()  # each request with waiting steps, once
        self._answers: list[messages.Answer] = [messages.Ready()]

    def run(self) -> None:
        """Serve until the process is killed."""
        limit_memory(self._settings.memory_mb)
        while True:
            if self._answers:
                answers, self._answers = self._answers, []
                self._socket.send(self._encode(answers))
            self._receive(self._wait_ms())
            self._do_steps(time.monotonic() + TURN_S)
            self._take_all_due(time.monotonic())

    def _encode(self, answers: list[messages.Answer]) -> bytes:
        """Encode `answers`; the request of an answer that cannot be encoded fails."""
        try:
            return messages.encode(answers)
        except Exception:  # noqa: BLE001 - the next lines find the request that caused it
            return messages.encode([self._check_answer(answer) for answer in answers])

    def _check_answer(self, answer: messages.Answer) -> messages.Answer:
        """Return `answer`, or its request's failure if it cannot be encoded."""
        try:
            messages.encode([answer])
        except Exception as error:
            if isinstance(answer, messages.Ready):
                raise
            self._forget(answer.key)
            reason = f"its answer cannot be sent: {type(error).__name__}"
            return messages.Failure(answer.key, self._parsers.name, 0, reason, fatal=True)
        return answer

    def _forget(self, key: int) -> None:
        request = self._requests.pop(key, None)
        if request is not None:
            request.queue.clear()

    def _wait_ms(self) -> int | None:
        if self._turns:
            return 0
        waiting = (
            request.scheduler.due
            for request in self._requests.values()
            if not request.is_catching_up
        )
        due = min(waiting, default=inf)
        return None if due == inf else max(0, ceil((due - time.monotonic()) * MS_PER_S))

    def _receive(self, timeout_ms: int | None) -> None:
        """Take all available messages, waiting `timeout_ms` for the first; None: no limit."""
        while self._socket.poll(timeout_ms):
            for message in messages.decode_requests(self._socket.recv()):
                self._take_message(message)
            timeout_ms = 0

    def _take_message(self, message: messages.Request) -> None:
        if isinstance(message, messages.OpenRequest):
            self._open(message)
            return
        request = self._requests.get(message.key)
        if request is None:
            return  # it has failed here, which the main process will soon learn
        if isinstance(message, messages.Feed):
            request.queue.append(message)
            if len(request.queue) == 1:
                self._turns.append(request)
        elif isinstance(message, messages.Flush):
            request.flushed = True
            if not request.queue:
                request.scheduler.flush(time.monotonic())
        else:
            self._forget(message.key)

    def _open(self, message: messages.OpenRequest) -> None:
        # A parser that killed its process in the first step might also do so when it is built.
        parsers = PassthroughParsers() if message.parsed == 0 else self._parsers
        report = self._report(message)
        backend = InlineBackend(self._detokenizers, parsers, self._settings, report)
        clock = time.perf_counter if message.measure else None
        self._monitor.begin(message.key, 0)
        params = decode(PostprocessParams, message.params)
        if params is None:
            raise ProtocolError("the parameters of a request are of a newer version")
        try:
            new = NewRequest(params, message.token_ids, time.monotonic(), clock=clock)
            scheduler = backend.start(new)
        except ParserFailedError as failure:
            self._tell(message.key, failure, fatal=True)
            return
        finally:
            self._monitor.end()
        self._requests[message.key] = _Request(message, scheduler)

    def _report(self, message: messages.OpenRequest) -> Report:
        """Return the callback for a parser that raises, if the request survives it.

        A fatal failure is also raised; the code that catches it reports it to the main process.
        """
        key = message.key

        def report(failure: ParserFailedError) -> None:
            request = self._requests.get(key)
            processed = request.chunks if request is not None else 0
            is_known = message.processed > processed  # another process has reported it
            if (
                self._settings.on_error != "fail"
                and not is_known
                and not isinstance(failure.cause, ParserDisabledError)
            ):
                self._tell(key, failure, fatal=False)

        return report

    def _tell(self, key: int, failure: ParserFailedError, *, fatal: bool) -> None:
        self._answers.append(
            messages.Failure(key, failure.parser, failure.position, failure.reason, fatal)
        )

    def _do_steps(self, until: float) -> None:
        """Process a step of each request in turn, until `until` or until all are done."""
        stepped: dict[int, _Request] = {}
        while self._turns:
            request = self._turns.popleft()
            if not request.queue:
                continue  # closed in the meantime
            feed = request.queue.popleft()
            self._monitor.begin(request.key, request.chunks)
            try:
                request.step(feed)
            except ParserFailedError as failure:
                self._fail(request, failure)
            self._monitor.end()
            if request.queue:
                self._turns.append(request)
            elif request.flushed:
                request.scheduler.flush(time.monotonic())
            stepped[request.key] = request
            if time.monotonic() > until:
                break
        self._answers += [
            messages.Progress(key, request.chunks) for key, request in stepped.items()
        ]

    def _fail(self, request: _Request, failure: ParserFailedError) -> None:
        """Send the request's waiting results, then the failure that ends it."""
        if not request.is_catching_up:
            request.scheduler.flush(time.monotonic())
            with contextlib.suppress(ParserFailedError):  # the first failure is more informative
                self._take_due(request, inf)
        self._tell(request.key, failure, fatal=True)
        self._forget(request.key)

    def _take_all_due(self, now: float) -> None:
        for request in [*self._requests.values()]:
            if request.scheduler.due > now or request.is_catching_up:
                continue
            self._monitor.begin(request.key, request.chunks)
            try:
                self._take_due(request, now)
            except ParserFailedError as failure:
                self._tell(request.key, failure, fatal=True)
                self._forget(request.key)
            self._monitor.end()

    def _take_due(self, request: _Request, now: float) -> None:
        for scheduled in request.scheduler.take(now):
            chunks = request.chunks_by_choice[scheduled.index]
            result = messages.Result(request.key, chunks, request.chunks, scheduled)
            self._answers.append(result)


class _Request:
    """A request of this process. chunks: processed so far, of all choices."""

    def __init__(self, message: messages.OpenRequest, scheduler: ChunkScheduler) -> None:
        self.key = message.key
        self.scheduler = scheduler
        self.queue: deque[messages.Feed] = deque()
        self.flushed = False
        self.chunks = 0
        self.chunks_by_choice = [0] * len(message.seen)
        self._seen = message.seen
        self._shown = message.shown
        self._parsed = message.parsed

    @property
    def is_catching_up(self) -> bool:
        """Whether chunks that another process has processed are still to be repeated."""
        return any(
            done < seen for done, seen in zip(self.chunks_by_choice, self._seen, strict=True)
        )

    def step(self, feed: messages.Feed) -> None:
        """Process one chunk. Raises `ParserFailedError` if that ends the request."""
        index = feed.chunk.index
        self.scheduler.add(feed.chunk, feed.arrived, feed.age_s)
        self.chunks += 1
        self.chunks_by_choice[index] += 1
        done = self.chunks_by_choice[index]
        if done in (self._shown[index], self._seen[index]):
            self.scheduler.forget(index, keeps_deltas=done > self._shown[index])
        if self.chunks == self._parsed:
            for of_choice in range(len(self._seen)):
                self.scheduler.degrade(of_choice, ParserDisabledError(), time.monotonic())
