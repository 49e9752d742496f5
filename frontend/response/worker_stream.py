"""Reads a worker's stream, and post-processes the chunks of plain workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

import msgspec
from dynamo.llm.exceptions import DynamoException, HttpError, InvalidArgument

from ...base.errors import BackedgeError, PoolAbsentError, ProtocolError
from ...base.json_types import JsonObject, check_nesting
from ...engines.dynamo.types import AnnotatedItem, Context, RoutedEngine
from ...postprocess.engine_output import engine_error, parse_engine_output
from ...postprocess.messages import (
    KEY,
    Chunk,
    PostprocessedChunk,
    PostprocessParams,
    TokenLogprob,
    read,
)
from ...postprocess.postprocessor import Postprocessor
from ...recording.recorder import RequestRecorder
from ...recording.recording import Outcome

# Dynamo's names for a worker that is gone, does not answer or is full, wherever it notices that: in
# the text of an exception of any type, and of an item of the stream.
FULL = "CapacityExhausted:"
UNAVAILABLE = ("Unavailable:", "DeadlineExceeded:", FULL)
# Its names for a request that the worker refuses. So Dynamo takes any ValueError and TypeError of a
# worker; its frontends hide their text, and since 1.7 its workers do.
REFUSED = ("InvalidRequest:", "BackendInvalidArgument:")
HIDDEN_REFUSAL = "Invalid request"
LEAVING_S = 0.05


class WorkerError(BackedgeError):
    """The worker failed, disappeared or is full. retryable: another attempt may succeed."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(message)


class _WorkerHttpError(msgspec.Struct):
    """The JSON in a worker's error."""

    message: str
    code: int


class _ExtraArgs(msgspec.Struct):
    """processed: the text of a `PostprocessedChunk`."""

    processed: str | None = msgspec.field(default=None, name=KEY)


class _EngineData(msgspec.Struct):
    """The engine's own data, which Dynamo passes on."""

    prompt_logprobs: object = None


class _Output(msgspec.Struct):
    """The parts of an engine output that no `Chunk` has from the engine."""

    extra_args: _ExtraArgs | None = None
    engine_data: _EngineData | None = None


def parse_client_error(error: Exception) -> HttpError | None:
    """Return the HTTP 4xx with which the worker rejected the request; None for other errors.

    A worker's HttpError arrives as text: the name of one of Dynamo's error types
    (`InvalidRequest`, `BackendInvalidArgument`), a colon, and JSON.
    """
    _, _, text = str(error).partition(": ")
    try:
        found = msgspec.json.decode(check_nesting(text), type=_WorkerHttpError)
    except msgspec.DecodeError:
        return None
    is_client_error = HTTPStatus.BAD_REQUEST <= found.code < HTTPStatus.INTERNAL_SERVER_ERROR
    return HttpError(found.code, found.message) if is_client_error else None


def interpret_error(error: Exception) -> Exception:
    """Return the error to raise for one of Dynamo's stream, perhaps `error` itself.

    The binding raises different types: if the worker rejected the request, the client is at fault;
    otherwise the text says whether it is gone. Dynamo would blame the client for a TypeError that
    is raised here.
    """
    client_error: Exception | None = parse_client_error(error)
    if client_error is None and str(error).startswith(REFUSED):
        client_error = InvalidArgument(HIDDEN_REFUSAL)
    if client_error is not None:
        return client_error
    if isinstance(error, PoolAbsentError) or str(error).startswith(UNAVAILABLE):
        return WorkerError(str(error), retryable=True)
    if isinstance(error, DynamoException | HttpError | BackedgeError):
        return error
    return WorkerError(f"{type(error).__name__}: {error}", retryable=False)


def is_lost(error: Exception) -> bool:
    """Whether the request's worker is gone, so that another one may go on."""
    shown = interpret_error(error)
    # Another worker has no more room than the one that said so.
    return isinstance(shown, WorkerError) and shown.retryable and not str(shown).startswith(FULL)


def find_output(item: AnnotatedItem | JsonObject) -> JsonObject | None:
    """Return the engine output in an item of Dynamo's stream; None for a comment.

    Raises `WorkerError` for an error.
    """
    if isinstance(item, dict):
        return item
    if item.is_error():
        message = "; ".join(item.comments() or []) or "unknown error"
        raise WorkerError(message, retryable=message.startswith(UNAVAILABLE))
    return item.data()


async def read_outputs(
    items: AsyncIterator[AnnotatedItem | JsonObject],
) -> AsyncIterator[JsonObject]:
    """Yield the outputs in a worker's stream. Raises `WorkerError`."""
    async for item in items:
        if (output := find_output(item)) is not None:
            yield output


async def _client_has_left(context: Context) -> bool:
    """Whether a stream ended because its client left.

    Dynamo ends the worker's stream first and stops the request's own context a moment later.
    """
    if not context.is_stopped():
        await asyncio.sleep(LEAVING_S)
    return context.is_stopped()


class StreamReader:
    """Reads one response from a worker.

    A chunk with a `PostprocessedChunk` needs no more work; others are post-processed here. Each
    chunk is checked, since a migrated stream may continue at a worker of the other kind.

    make_postprocessor: for the chunks of a plain worker; called again if such chunks follow
        others.
    recorder: of this request; None if it is not recorded.
    token_ids: of each choice, as far as they have been read.
    has_sent: whether any delta has been given.
    """

    def __init__(
        self,
        params: PostprocessParams,
        make_postprocessor: Callable[[], Postprocessor],
        recorder: RequestRecorder | None = None,
    ) -> None:
        self._recorder = recorder
        self._params = params
        self._make_postprocessor = make_postprocessor
        self._postprocessor: Postprocessor | None = None
        # All tokens of each choice, so that post-processing can start here at any chunk.
        self.token_ids: list[list[int]] = [[] for _ in range(params.n)]
        self._finished: set[int] = set()
        self.has_sent = False
        # A plain worker that died sent them; Dynamo moves only requests with a single choice.
        self._logprobs: list[TokenLogprob] = []

    @property
    def finished(self) -> bool:
        """Whether all choices have finished."""
        return len(self._finished) == self._params.n

    def restart(self) -> None:
        """Forget what was read: the answer, of which no delta was given, begins anew."""
        for token_ids in self.token_ids:
            token_ids.clear()
        if self._recorder is not None:
            self._recorder.restart()
        self._postprocessor = None
        self._logprobs = []

    async def read(
        self, engine: RoutedEngine, request: JsonObject, context: Context
    ) -> AsyncIterator[tuple[Chunk, PostprocessedChunk]]:
        """Route `request`; yield each chunk with its deltas until all choices have finished.

        request: preprocessed. context: the request's; a client's disconnect stops the worker
            through it.
        Raises `WorkerError` if the worker fails before all have finished or ends the stream
        unfinished, and Dynamo's HttpError or InvalidArgument if the worker rejects the request.
        """
        try:
            async for item in await engine.generate(request, context=context):
                chunk = self._read_item(item)
                if chunk is None:
                    continue
                if self._ended_early():
                    # Stop it now: it would continue while the client takes its last deltas.
                    context.stop_generating()
                yield chunk
                if context.is_stopped():
                    return  # otherwise chunks that are already buffered would still arrive
        except Exception as error:
            if self.finished or await _client_has_left(context):
                return
            shown = interpret_error(error)
            if shown is error:
                raise
            raise shown from error
        if not self.finished and not await _client_has_left(context):
            raise WorkerError("the worker ended the stream without a finish_reason", retryable=True)

    async def read_and_record(
        self, engine: RoutedEngine, request: JsonObject, context: Context
    ) -> AsyncIterator[tuple[Chunk, PostprocessedChunk]]:
        """Read as `read` does, and hand the recording over at the end of the stream."""
        recorder, error = self._recorder, None
        if recorder is not None:
            recorder.begin(time.monotonic())
        try:
            async for chunk in self.read(engine, request, context):
                yield chunk
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise
        finally:
            if recorder is not None:
                outcome: Outcome = "finished" if self.finished else "cancelled"
                recorder.end("failed" if error else outcome, error)

    def _read_item(
        self, item: AnnotatedItem | JsonObject
    ) -> tuple[Chunk, PostprocessedChunk] | None:
        """Return the chunk in an item of Dynamo's stream; None for a comment.

        Raises `WorkerError`.
        """
        output = find_output(item)
        if output is None:
            return None
        if (failure := engine_error(output)) is not None:
            raise WorkerError(failure, retryable=False)
        try:
            return self._read_output(output)
        except ProtocolError as error:
            # The state that the next chunks continue is unknown.
            raise WorkerError(str(error), retryable=False) from error

    def _read_output(self, output: JsonObject) -> tuple[Chunk, PostprocessedChunk]:
        """Return the chunk in an engine output. Raises `ProtocolError` if it cannot be read."""
        chunk = parse_engine_output(output)
        if chunk.index >= self._params.n:
            raise ProtocolError(
                f"the worker sent choice {chunk.index}; the request has {self._params.n}"
            )
        try:
            rest = msgspec.convert(output, _Output)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"a worker's post-processed chunk: {error}") from error
        processed = self._read_processed((rest.extra_args or _ExtraArgs()).processed, chunk)
        if processed is None:
            processed = self._process(chunk)
        if chunk.index in self._finished:
            processed.deltas = []  # the choice has finished
        if self._recorder is not None:
            self._record(self._recorder, chunk, processed)
        self.token_ids[chunk.index] += chunk.token_ids
        if processed.deltas:
            self.has_sent = True
            self._finished.update(delta.index for delta in processed.deltas if delta.finish_reason)
        if rest.engine_data is not None:
            prompt = rest.engine_data.prompt_logprobs
            chunk = msgspec.structs.replace(chunk, prompt_logprobs=prompt)
        return chunk, processed

    def _record(
        self, recorder: RequestRecorder, chunk: Chunk, processed: PostprocessedChunk
    ) -> None:
        now = time.monotonic()
        # A worker that ends a choice at a stop string reports it with tokens that are all text.
        # Otherwise the last token would count as the one that ended the generation.
        ended_by_text = self._postprocessor is None and isinstance(chunk.stop_reason, str)
        if ended_by_text:
            chunk = msgspec.structs.replace(chunk, finish_reason=None)
        recorder.add(chunk, now)
        recorder.sent(processed.deltas, now)

    def _read_processed(self, text: str | None, chunk: Chunk) -> PostprocessedChunk | None:
        """Return the worker's post-processed `chunk`; None if the worker is plain or newer.

        Raises `ProtocolError` if it cannot be read, or belongs to another choice.
        """
        if text is None:
            return None
        processed = read(PostprocessedChunk, text)
        if processed is None:
            return None
        for delta in processed.deltas:
            if delta.index != chunk.index:
                raise ProtocolError(
                    f"the worker sent a delta of choice {delta.index} with choice {chunk.index}"
                )
        self._give_up_own(processed)
        return processed

    def _give_up_own(self, processed: PostprocessedChunk) -> None:
        """Drop our post-processor, which misses the tokens of a worker that post-processes.

        The next plain chunk builds a new one. The worker cannot know the logprobs of the tokens
        of which no delta was sent here.
        """
        if self._postprocessor is not None:
            self._logprobs = self._postprocessor.choices[0].logprobs
            self._postprocessor = None
        if self._logprobs and processed.deltas:
            first = processed.deltas[0]
            first.logprobs = [*self._logprobs, *(first.logprobs or ())]
            self._logprobs = []

    def _process(self, chunk: Chunk) -> PostprocessedChunk:
        if self._postprocessor is None:
            self._postprocessor = self._make_postprocessor()
            for index, token_ids in enumerate(self.token_ids):
                self._postprocessor.resume(token_ids, index)
        deltas = self._postprocessor.feed(chunk)
        ended = {delta.index for delta in deltas if delta.finish_reason}
        is_last = bool(ended) and len(self._finished | ended) == self._params.n
        shows_usage = is_last or self._params.continuous_usage_stats
        usage = self._postprocessor.usage if shows_usage else None
        return PostprocessedChunk(deltas=deltas, usage=usage)

    def _ended_early(self) -> bool:
        """Whether a stop string found here ended the response before the worker did."""
        postprocessor = self._postprocessor
        return postprocessor is not None and postprocessor.finished and postprocessor.ended_early
