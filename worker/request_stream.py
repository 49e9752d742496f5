"""A request in the worker: takes engine outputs and sends post-processed chunks in time.

It is the same for all engines; their adapters implement `EngineRequestHandle`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from math import inf

from ..base.errors import ParserFailedError, ProtocolError, RequestError
from ..base.json_types import JsonObject
from ..base.limits import MAX_ERROR, MAX_PARAMS_CHARACTERS
from ..base.log import get_logger
from ..engines.dynamo.types import Context, ResponseSender
from ..parsers.events import MALFORMATIONS
from ..postprocess.chunk_scheduler import ScheduledChunk
from ..postprocess.engine_output import ABORTS, engine_error, parse_engine_output
from ..postprocess.messages import KEY, PostprocessParams, read
from ..postprocess.stage_timing import Clock
from ..recording.recorder import Recorder, RequestRecorder
from ..recording.recording import Outcome
from .backend import NewRequest, PostprocessBackend, RequestStream
from .chunk_writer import ChunkWriter, PostprocessedWriter
from .egress import Egress, PullEgress, PushEgress, ReceiverGoneError
from .engine_request import EngineRequestHandle
from .metrics import WorkerMetrics
from .regeneration import Attempt, AttemptLostError, Regeneration
from .token_rate import TokenRate

logger = get_logger(__name__)


def read_params(request: JsonObject) -> PostprocessParams | None:
    """Return the request's `PostprocessParams`; None if its chunks must pass unchanged.

    Raises `RequestError` if the parameters are larger than any request needs.
    """
    extra_args = request.get("extra_args")
    if not isinstance(extra_args, dict):
        return None
    text = extra_args.get(KEY)
    if isinstance(text, str) and len(text) > MAX_PARAMS_CHARACTERS:
        field, limit = f"extra_args.{KEY}", MAX_PARAMS_CHARACTERS
        raise RequestError.too_many(field, len(text), "characters", limit)
    try:
        return read(PostprocessParams, text)
    except ProtocolError as error:
        # The frontend post-processes unchanged chunks, so the client loses nothing.
        logger.warning("request passes without post-processing: %s", error)
        return None


class WorkerPostprocessor:
    """Post-processes the output stream of each request; one object per worker.

    metrics: None: not exported.
    show: converts an error of the engine's handler into the one to raise.
    write: builds a request's chunk writer; it gets a clock if the request is measured.
    recorder: None to record nothing.
    """

    def __init__(
        self,
        backend: PostprocessBackend,
        metrics: WorkerMetrics | None = None,
        show: Callable[[Exception], Exception] | None = None,
        write: Callable[[Clock | None], ChunkWriter] = PostprocessedWriter,
        recorder: Recorder | None = None,
    ) -> None:
        self.backend = backend
        self.metrics = metrics or WorkerMetrics()
        self.metrics.parsers_name = backend.parsers_name
        self.show = show or (lambda error: error)
        self.write = write
        self._recorder = recorder

    def stream(
        self,
        outputs: AsyncIterator[JsonObject],
        params: PostprocessParams,
        token_ids: list[int],
        engine: EngineRequestHandle,
        sender: ResponseSender | None = None,
        context: Context | None = None,
        again: Regeneration | None = None,
    ) -> AsyncGenerator[JsonObject, None]:
        """Post-process the engine's `outputs`; return the chunks.

        If `params.stream` is False, each choice has its deltas in one chunk.
        token_ids: the request's. After the prompt, tokens that another worker generated before it
            died.
        sender: takes the chunks; the generator then yields none.
        context: Dynamo's; its metadata may request a recording.
        again: generates the request's malformed calls again.
        """
        malformed_calls = self.backend.settings.malformed_calls
        # A recording has the final answer, which every reader reads alike.
        params = params.treat_malformed(
            "open" if malformed_calls == "regenerate" else malformed_calls
        )
        recorder = None
        if self._recorder is not None:
            recorder = self._recorder.start(params, token_ids, context)
        if again is not None:
            params = params.treat_malformed(malformed_calls, streams=again.streams)
        pump = RequestPump(self, params, token_ids, engine, recorder, again)
        return pump.pull(outputs) if sender is None else pump.push(outputs, sender)


# The pumps of complete responses; asyncio itself does not keep its tasks alive.
_drained: set[asyncio.Task[None]] = set()


class RequestPump:
    """Feeds one request's outputs to its stream and sends the chunks that are due.

    A task of its own reads the engine and sends what is due at once. An alarm sends what may
    wait, even while the engine pauses. While the last chunk is not sent, deltas wait.
    The last finish ends the response, with nothing in between: if the worker died there, Dynamo
    would have another one continue a complete answer. The engine is then read to its end in the
    background.

    recorder: of this request; None if it is not recorded.
    again: generates its malformed calls again; None if they stay as they are.
    """

    def __init__(
        self,
        worker: WorkerPostprocessor,
        params: PostprocessParams,
        token_ids: list[int],
        engine: EngineRequestHandle,
        recorder: RequestRecorder | None,
        again: Regeneration | None,
    ) -> None:
        self._worker = worker
        self._metrics = worker.metrics
        self._recorder = recorder
        self._writer: ChunkWriter
        self._params = params
        self._token_ids = token_ids
        self._engine = engine
        self._again = again
        self._clock: Clock | None = None  # set if the stages of this request are measured
        self._loop: asyncio.AbstractEventLoop
        self._egress: Egress
        self._stream: RequestStream | None = None
        self._rates = [TokenRate() for _ in range(params.n)]
        self._open = set(range(params.n))  # choices that the engine is generating
        self._aborts: list[asyncio.Task[None]] = []  # pending aborts of choices in the engine
        self._unfinished = params.n  # choices whose finish has not been sent
        self._cancelled = False
        self._taken: deque[ScheduledChunk] = deque()  # due but not sent yet
        self._pumped = False  # whether the engine's outputs have been read to the end
        self._ended = False
        self._failure: Exception | JsonObject | None = None
        self._woken = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = inf

    @property
    def oldest(self) -> float:
        """When the oldest unsent token arrived; infinite if all were sent."""
        return inf if self._stream is None else self._stream.oldest

    async def pull(self, outputs: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject, None]:
        """Yield the request's chunks.

        Reads `outputs` to the end, so that the engine's handler cleans up. Raises their
        exception after sending all that was generated before, unless that is the whole answer.
        """
        egress = PullEgress(self._flush)
        async with self._running(outputs, egress):
            while not egress.ended and (chunk := await egress.next()) is not None:
                yield chunk
            if (last := await self._end()) is not None:
                yield last

    async def push(
        self, outputs: AsyncIterator[JsonObject], sender: ResponseSender
    ) -> AsyncGenerator[JsonObject, None]:
        """Send the request's chunks and yield none; otherwise as `pull`."""
        egress = PushEgress(sender, self._flush)
        with suppress(ReceiverGoneError), closing(egress):
            async with self._running(outputs, egress):
                await egress.wait_end()
                await egress.sent()
                last = await self._end()
                if last is not None:
                    egress.send(last)
                    await egress.sent()
            sender.close()
        return
        yield  # makes this a generator

    @asynccontextmanager
    async def _running(
        self, outputs: AsyncIterator[JsonObject], egress: Egress
    ) -> AsyncIterator[None]:
        # Not in __init__: Dynamo calls its handlers in a thread without an event loop.
        self._loop = asyncio.get_running_loop()
        self._egress = egress
        self._clock = self._metrics.start_request(self)
        self._writer = self._worker.write(self._clock)
        if self._recorder is not None:
            self._recorder.begin(self._loop.time())
        pump = self._loop.create_task(self._pump(outputs))
        try:
            yield
        except ReceiverGoneError:
            self._failure, self._cancelled = None, True
            raise
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._ended = True
            self._set_alarm(inf)
            if self._unfinished:
                pump.cancel()
            else:
                _drained.add(pump)
                pump.add_done_callback(_drained.discard)
            if self._stream is not None:
                self._stream.close()
            if self._again is not None:
                self._again.end()
            self._metrics.end_request(self, self._outcome())
            if self._recorder is not None:
                self._recorder.end(self._outcome(), describe_failure(self._failure))

    async def _end(self) -> JsonObject | None:
        """Return the last chunk of a failed request, or raise the error for the client."""
        if not self._unfinished:
            return None
        last = None if self._failure is None else self._failed(self._failure)
        await asyncio.gather(*self._aborts)
        return last

    async def _pump(self, outputs: AsyncIterator[JsonObject]) -> None:
        try:
            stream = self._start_stream()
            if stream.due > self._loop.time():
                await self._read(outputs)
            # Otherwise the tokens of the worker that died had already ended the request.
            if self._again is not None:
                await self._repeat_calls(self._again)
        except Exception as error:  # noqa: BLE001 - `_end` raises it, to the client
            self._failure = error
        finally:
            self._pumped = True
            if self._stream is not None:
                self._stream.flush(self._loop.time())
            self._flush()

    def _start_stream(self) -> RequestStream:
        """Start post-processing, after the tokens that were sent."""
        token_ids = self._token_ids if self._again is None else self._again.begin_stream()
        now = self._loop.time()
        new = NewRequest(self._params, token_ids, now, self._wake, self._clock)
        self._stream = stream = self._worker.backend.start(new)
        return stream

    async def _repeat_calls(self, again: Regeneration) -> None:
        """Generate malformed calls again, each once the engine's request before has ended."""
        while await self._finds_fault(again):
            await self._attempt(again)

    async def _finds_fault(self, again: Regeneration) -> bool:
        """Send what the engine has generated; return whether a call is to be generated again."""
        if again.fault is None and self._stream is not None:
            self._stream.flush(self._loop.time())
            self._flush()
        while again.fault is None and not self._ended and not self._is_drained():
            again.changed.clear()
            await again.changed.wait()
        return again.fault is not None

    async def _attempt(self, again: Regeneration) -> None:
        """Generate a call again; if the engine refuses that, go on without."""
        attempt: Attempt | None = again.start()
        self._open.add(0)
        self._restart(again)
        while attempt is not None:
            outputs, self._engine = attempt
            attempt = None
            try:
                await self._read(outputs)
            except AttemptLostError:
                attempt = again.move()
                self._restart(again)
            except Exception as error:
                if again.is_answered:
                    raise
                logger.warning("a call is not generated again: the engine refuses: %s", error)
                attempt = again.fall_back()
                self._leave_open(again)

    def _restart(self, again: Regeneration) -> None:
        """Restart post-processing with what was generated and stays."""
        if self._stream is not None:
            self._stream.close()
        stream, now = self._start_stream(), self._loop.time()
        for chunk in again.list_unsent():
            stream.add(chunk, now)

    def _take_fault(self, again: Regeneration, scheduled: ScheduledChunk) -> None:
        """Have the engine generate a malformed call again, or leave it open."""
        if scheduled.faulty is None:
            return
        if again.plan(scheduled.faulty):
            self._abort(0)
        else:
            self._leave_open(again)

    def _leave_open(self, again: Regeneration) -> None:
        """Restart post-processing so that malformed calls stay open from now on."""
        self._params = self._params.treat_malformed("open")
        self._restart(again)

    async def _read(self, outputs: AsyncIterator[JsonObject]) -> None:
        if self._again is not None:
            outputs = self._again.follow(outputs)
        aborted: list[JsonObject] = []
        async for output in outputs:
            if self._ended or engine_error(output) is not None:
                self._failure = output  # of no effect if the response has ended
            elif output.get("finish_reason") in ABORTS and self._open:
                aborted.append(output)  # if it shuts down, it raises, and another one goes on
            elif self._stream is not None:
                self._add(output, self._stream)
                while (room := self._stream.room) is not None:
                    await room
        for output in aborted:
            if self._stream is not None and not self._ended:
                self._add(output, self._stream)

    def _add(self, output: JsonObject, stream: RequestStream) -> None:
        """Post-process an output of the engine."""
        chunk, metrics = parse_engine_output(output), self._metrics
        if chunk.index >= self._params.n:
            raise ProtocolError(
                f"the engine sent choice {chunk.index}; the request has {self._params.n}"
            )
        if self._again is not None:
            chunk = self._again.take(chunk)
            if self._recorder is not None:
                self._recorder.take_back(*self._again.pop_discarded())
        now = self._loop.time()
        tokens = len(chunk.token_ids)
        metrics.outputs += 1
        metrics.tokens += tokens
        rate = self._rates[chunk.index]
        if self._recorder is not None:
            self._recorder.add(chunk, now)
        stream.add(chunk, now, rate.age_s(tokens, now))
        self._writer.add(chunk.index, output)
        if chunk.finish_reason is not None:
            # A choice that we have aborted is already removed.
            self._cancelled |= output["finish_reason"] in ABORTS and chunk.index in self._open
            self._open.discard(chunk.index)
        elif (group := rate.next_group(stream.engine_wait_s(chunk.index))) is not None:
            self._engine.set_stream_interval(chunk.index, group)
        if stream.due <= now:
            self._wake()  # not at once: the engine may have more output ready
        elif stream.due < self._alarm_at:
            self._set_alarm(stream.due)

    def _flush(self) -> None:
        """Send what is due while chunks can be sent; end the request when all are sent."""
        self._woken = False
        if self._again is not None:
            self._again.changed.set()
        if self._ended:
            return
        try:
            self._send_due()
        except Exception as error:  # noqa: BLE001 - `_end` raises it, to the client
            self._failure, self._pumped, self._ended = error, True, True
            self._egress.end()
            return
        stream = self._stream
        if not self._unfinished or self._is_done():
            self._egress.end()
        elif stream is not None:
            if self._egress.busy and (self._taken or stream.due <= self._loop.time()):
                self._egress.notify()
            elif stream.due != self._alarm_at:
                self._set_alarm(stream.due)

    def _send_due(self) -> None:
        while not self._egress.busy:
            if not self._taken and self._stream is not None and self._stream.due < inf:
                self._taken.extend(self._take())
            if not self._taken:
                return
            self._send(self._taken.popleft())

    def _take(self) -> list[ScheduledChunk]:
        """Return what is due of the stream."""
        if self._stream is None:
            return []
        taken, again = self._stream.take(self._loop.time()), self._again
        if again is None:
            return taken
        for scheduled in taken:
            again.note_sent(scheduled)
            self._take_fault(again, scheduled)
        # While a call is held back, there may be nothing to send.
        return [part for part in taken if part.token_ids or part.deltas or part.finished]

    def _is_done(self) -> bool:
        """Whether the engine has ended and all that it generated was sent."""
        return self._pumped and self._is_drained()

    def _is_drained(self) -> bool:
        """Whether all that the engine has generated so far was sent."""
        stream = self._stream
        return not self._taken and (stream is None or (stream.idle and stream.due == inf))

    def _send(self, scheduled: ScheduledChunk) -> None:
        if scheduled.ended_early:
            self._abort(scheduled.index)
        last = self._unfinished == scheduled.finished
        self._egress.send(self._chunk(scheduled), last=last)
        self._unfinished -= scheduled.finished

    def _outcome(self) -> Outcome:
        if self._failure is not None and self._unfinished:
            return "failed"
        return "cancelled" if self._cancelled or self._unfinished else "finished"

    def _failed(self, failure: Exception | JsonObject) -> JsonObject:
        """Return the last chunk of a failed request; raise `failure` if it is an exception."""
        if isinstance(failure, ParserFailedError | ProtocolError):
            for index in tuple(self._open):
                self._abort(index)
            return {"index": 0, "token_ids": [], "finish_reason": f"error: {failure}"}
        if isinstance(failure, Exception):
            raise self._worker.show(failure)
        return failure

    def _abort(self, index: int) -> None:
        """Stop generating a choice unless it has ended."""
        if index in self._open:
            self._open.discard(index)
            self._aborts.append(self._loop.create_task(self._engine.abort(index)))

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._flush)

    def _set_alarm(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_at = at
        if at < inf:
            self._alarm = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        # Timers may ring slightly early; then the alarm is set again.
        self._alarm, self._alarm_at = None, inf
        self._flush()

    def _chunk(self, scheduled: ScheduledChunk) -> JsonObject:
        if self._recorder is not None:
            self._recorder.sent(scheduled.deltas, self._loop.time())
        chunk = self._writer.write(scheduled)
        self._metrics.count_chunk(scheduled, streams=self._params.stream)
        for call in scheduled.calls:
            self._engine.note_call(call)
            if call in MALFORMATIONS:
                told = "request %s: a call of parser %s stays open: %s"
                name = self._worker.backend.parsers_name
                logger.info(told, self._params.response_id, name, call)
        return chunk


def describe_failure(failure: Exception | JsonObject | None) -> str | None:
    """Return a failure as recordings store it: its kind, a colon, and its text."""
    if isinstance(failure, Exception):
        return f"{type(failure).__name__}: {failure}"[:MAX_ERROR]
    return None if failure is None else engine_error(failure)
