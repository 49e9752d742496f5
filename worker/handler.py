"""PostprocessedChunk-processing around an engine's `generate`, whatever the engine is.

The engine's adapter says how to read a request and what the engine can be asked;
everything else is here and in `request_stream`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator

from ..parsers.errors import ProtocolError
from ..postprocess.engine_output import JsonDict
from ..postprocess.messages import KEY, PostprocessParams, read
from .backend import PostprocessBackend
from .metrics import WorkerMetrics
from .request_stream import EngineRequestHandle, RequestPump

logger = logging.getLogger(__name__)


def read_params(request: JsonDict) -> PostprocessParams | None:
    """Return the request's spec, or None if its chunks are to pass untouched."""
    extra_args = request.get("extra_args")
    if not isinstance(extra_args, dict):
        return None
    try:
        return read(PostprocessParams, extra_args.get(KEY))
    except ProtocolError as error:
        # The frontend post-processes what we leave alone, so the client loses nothing.
        logger.warning("request passes without post-processing: %s", error)
        return None


class WorkerPostprocessor:
    """Wraps the output stream of each request; one per worker. metrics: None to count for nobody."""

    def __init__(self, backend: PostprocessBackend, metrics: WorkerMetrics | None = None) -> None:
        self._backend = backend
        self._metrics = metrics or WorkerMetrics()
        self._metrics.parsers_name = backend.parsers_name

    def stream(
        self,
        outputs: AsyncIterator[JsonDict],
        params: PostprocessParams,
        token_ids: list[int],
        engine: EngineRequestHandle,
    ) -> AsyncGenerator[JsonDict, None]:
        """Return the engine's `outputs` as chunks with a `PostprocessedChunk` each; without `params.stream` as one per choice.

        token_ids: the request's; behind the prompt come tokens that a worker
            which died has generated and sent.
        """
        return RequestPump(self._backend, params, token_ids, engine, self._metrics).run(outputs)
