"""Reads a worker's stream, and post-processes the chunks of plain workers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

import msgspec
from dynamo.llm.exceptions import HttpError

from ...parsers.errors import BackedgeError, ProtocolError
from ...parsers.json_types import JsonObject
from ...postprocess.engine_output import engine_error, parse_engine_output
from ...postprocess.messages import KEY, Chunk, PostprocessedChunk, PostprocessParams, read
from ...postprocess.migration import resume
from ...postprocess.postprocessor import Postprocessor
from ..dynamo_types import AnnotatedItem, Context, RoutedEngine

logger = logging.getLogger(__name__)


class WorkerError(BackedgeError):
    """The worker failed or went away. retryable: another attempt may succeed."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(message)


class _WorkerHttpError(msgspec.Struct):
    """The JSON in a worker's error."""

    message: str
    code: int


def parse_client_error(error: Exception) -> HttpError | None:
    """Return the HTTP 4xx with which the worker rejected the request; None for other errors.

    A worker's HttpError arrives as text: the name of an error type of Dynamo's
    (`InvalidRequest`, `BackendInvalidArgument`), a colon, and JSON.
    """
    _, _, text = str(error).partition(": ")
    try:
        found = msgspec.json.decode(text, type=_WorkerHttpError)
    except msgspec.DecodeError:
        return None
    is_client_error = HTTPStatus.BAD_REQUEST <= found.code < HTTPStatus.INTERNAL_SERVER_ERROR
    return HttpError(found.code, found.message) if is_client_error else None


class StreamReader:
    """Reads one response from a worker.

    A chunk with a `PostprocessedChunk` needs no more work; others are post-processed here. Each
    chunk is looked at by itself, since a migrated stream may go on at a worker of the other kind.

    make_postprocessor: for the chunks of a plain worker; called at most once.
    """

    def __init__(
        self, params: PostprocessParams, make_postprocessor: Callable[[], Postprocessor]
    ) -> None:
        self._params = params
        self._make_postprocessor = make_postprocessor
        self._postprocessor: Postprocessor | None = None
        # The tokens of each choice that workers have post-processed.
        self._processed_token_ids: list[list[int]] = [[] for _ in range(params.n)]
        self._finished: set[int] = set()

    async def read(
        self, engine: RoutedEngine, request: JsonObject, context: Context
    ) -> AsyncIterator[tuple[Chunk, PostprocessedChunk]]:
        """Route `request`; yield each chunk and what it means, until all choices have finished.

        request: preprocessed. context: the request's; a client that goes away stops the worker
            through it.
        Raises `WorkerError` if the worker fails or ends the stream unfinished, and Dynamo's
        HttpError if the worker rejects the request.
        """
        try:
            async for item in await engine.generate(request, context=context):
                chunk = self._read_item(item)
                if chunk is None:
                    continue
                if self._ended_early():
                    # Now: the worker would generate on while the client takes its last deltas.
                    context.stop_generating()
                yield chunk
                if context.is_stopped():
                    return  # chunks that are already buffered would still arrive
        except Exception as error:
            # The binding raises different types: what a worker rejected is the client's fault,
            # and a plain ValueError means that the worker died.
            if (client_error := parse_client_error(error)) is not None:
                raise client_error from error
            if isinstance(error, ValueError):
                raise WorkerError(str(error), retryable=True) from error
            raise
        if len(self._finished) < self._params.n and not context.is_stopped():
            raise WorkerError("the worker ended the stream without a finish_reason", retryable=True)

    def _read_item(self, item: AnnotatedItem) -> tuple[Chunk, PostprocessedChunk] | None:
        """Return the chunk in an item of Dynamo's stream; None for a comment."""
        if item.is_error():
            message = "; ".join(item.comments() or []) or "unknown error"
            raise WorkerError(message, retryable=False)
        output = item.data()
        if output is None:
            return None
        if (failure := engine_error(output)) is not None:
            raise WorkerError(failure, retryable=False)
        chunk = parse_engine_output(output)
        processed = _read_processed(output)
        if processed is None:
            processed = self._process(chunk)
        elif self._postprocessor is None:
            self._processed_token_ids[chunk.index] += chunk.token_ids
        self._finished.update(delta.index for delta in processed.deltas if delta.finish_reason)
        return chunk, processed

    def _process(self, chunk: Chunk) -> PostprocessedChunk:
        """Post-process a plain worker's chunk."""
        if self._postprocessor is None:
            self._postprocessor = self._make_postprocessor()
            for index, token_ids in enumerate(self._processed_token_ids):
                resume(self._postprocessor, token_ids, index)
        deltas = self._postprocessor.feed(chunk)
        is_last = self._postprocessor.finished and any(delta.finish_reason for delta in deltas)
        shows_usage = is_last or self._params.continuous_usage_stats
        usage = self._postprocessor.usage if shows_usage else None
        return PostprocessedChunk(deltas=deltas, usage=usage)

    def _ended_early(self) -> bool:
        """Whether a stop string found here ended the response while the worker generates on."""
        postprocessor = self._postprocessor
        return postprocessor is not None and postprocessor.finished and postprocessor.ended_early


def _read_processed(output: JsonObject) -> PostprocessedChunk | None:
    """Return what the worker has made of a chunk; None for a plain worker's."""
    try:
        return read(PostprocessedChunk, (output.get("extra_args") or {}).get(KEY))
    except ProtocolError as error:
        logger.warning("a worker's chunk is post-processed again, in the frontend: %s", error)
        return None
