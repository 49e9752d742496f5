"""A worker's chunks with their meaning, whoever works it out."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

import msgspec
from dynamo.llm.exceptions import HttpError

from ...parsers.errors import BackedgeError, ProtocolError
from ...postprocess.engine_output import JsonDict, engine_error, parse_engine_output
from ...postprocess.messages import KEY, Chunk, PostprocessedChunk, PostprocessParams, read
from ...postprocess.postprocessor import Postprocessor

logger = logging.getLogger(__name__)


class WorkerError(BackedgeError):
    """The worker failed or went away; the client is told. retryable: another try may succeed."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(message)


class _Refusal(msgspec.Struct):
    message: str
    code: int


def refusal(error: Exception) -> HttpError | None:
    """Return the worker's refusal of the request (HTTP 4xx), if `error` is one.

    A worker's HttpError reaches us as text: the name of a type of Dynamo's
    (`InvalidRequest`, `BackendInvalidArgument`), a colon, and JSON.
    """
    _, _, text = str(error).partition(": ")
    try:
        refused = msgspec.json.decode(text, type=_Refusal)
    except msgspec.DecodeError:
        return None
    is_client_error = HTTPStatus.BAD_REQUEST <= refused.code < HTTPStatus.INTERNAL_SERVER_ERROR
    return HttpError(refused.code, refused.message) if is_client_error else None


class StreamReader:
    """Reads one response from a worker.

    A chunk that carries a `PostprocessedChunk` is done; one that does not is post-processed
    here. That is decided chunk by chunk, since a migrated stream may go on at a
    worker of the other kind.

    make_postprocessor: for the chunks of a plain worker; called at most once.
    """

    def __init__(
        self, params: PostprocessParams, make_postprocessor: Callable[[], Postprocessor]
    ) -> None:
        self._params = params
        self._make_postprocessor = make_postprocessor
        self._local: Postprocessor | None = None
        self._seen: list[list[int]] = [[] for _ in range(params.n)]
        self._finished: set[int] = set()

    async def read(
        self, engine: Any, request: JsonDict, context: Any
    ) -> AsyncIterator[tuple[Chunk, PostprocessedChunk]]:
        """Route `request` and yield each chunk with what it means, until all choices have finished.

        engine: Dynamo's RoutedEngine. context: of the request; a client that goes
            away stops the worker through it.
        Raises `WorkerError` if the worker fails, or ends the stream unfinished, and
        Dynamo's HttpError if the worker refuses the request.
        """
        try:
            async for annotated in await engine.generate(request, context=context):
                meaning = self._read(annotated)
                if meaning is None:
                    continue
                if self._ended_early():
                    # At once: the worker goes on while the client takes its last deltas.
                    context.stop_generating()
                yield meaning
                if context.is_stopped():
                    return  # what is buffered would still come
        except Exception as error:
            # The binding raises a type by what went wrong at the worker: what it
            # refused is the request's fault, and a plain ValueError means it died.
            if (refused := refusal(error)) is not None:
                raise refused from error
            if isinstance(error, ValueError):
                raise WorkerError(str(error), retryable=True) from error
            raise
        if len(self._finished) < self._params.n and not context.is_stopped():
            raise WorkerError("the worker ended the stream without a finish_reason", retryable=True)

    def _read(self, annotated: Any) -> tuple[Chunk, PostprocessedChunk] | None:
        """Return what one item of Dynamo's stream means; None for a mere comment."""
        if annotated.is_error():
            raise WorkerError(
                "; ".join(annotated.comments() or []) or "unknown error", retryable=False
            )
        output = annotated.data()
        if output is None:
            return None
        if (message := engine_error(output)) is not None:
            raise WorkerError(message, retryable=False)
        chunk = parse_engine_output(output)
        post = self._post(output)
        if post is None:
            post = self._process(chunk)
        elif self._local is None:
            self._seen[chunk.index] += chunk.token_ids
        self._finished.update(delta.index for delta in post.deltas if delta.finish_reason)
        return chunk, post

    def _post(self, output: JsonDict) -> PostprocessedChunk | None:
        try:
            return read(PostprocessedChunk, (output.get("extra_args") or {}).get(KEY))
        except ProtocolError as error:
            logger.warning("the frontend post-processes a chunk itself: %s", error)
            return None

    def _process(self, chunk: Chunk) -> PostprocessedChunk:
        """Do here what the worker has not done."""
        if self._local is None:
            self._local = self._make_postprocessor()
            for index, token_ids in enumerate(self._seen):
                self._local.resume(token_ids, index)
        deltas = self._local.feed(chunk)
        done = self._local.finished and any(delta.finish_reason for delta in deltas)
        usage = self._local.usage if done or self._params.continuous_usage_stats else None
        return PostprocessedChunk(deltas=deltas, usage=usage)

    def _ended_early(self) -> bool:
        """Whether all has been said while the worker goes on."""
        return self._local is not None and self._local.finished and self._local.ended_early()
