"""Post-processing around an engine's `generate`, whatever the engine is.

The engine's adapter says how to read a request and what the engine can be asked;
everything else is here and in `flow`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator

from ..parsers.errors import ProtocolError
from ..postprocess.messages import KEY, Spec, read
from ..postprocess.outputs import JsonDict
from ..postprocess.work import Core
from .flow import EngineRequest, Flow
from .metrics import WorkerMetrics

logger = logging.getLogger(__name__)


def read_spec(request: JsonDict) -> Spec | None:
    """Return the request's spec, or None if its chunks are to pass untouched."""
    extra_args = request.get("extra_args")
    if not isinstance(extra_args, dict):
        return None
    try:
        return read(Spec, extra_args.get(KEY))
    except ProtocolError as error:
        # The frontend post-processes what we leave alone, so the client loses nothing.
        logger.warning("request passes without post-processing: %s", error)
        return None


class WorkerPostprocessor:
    """Wraps the output stream of each request; one per worker. metrics: None to count for nobody."""

    def __init__(self, core: Core, metrics: WorkerMetrics | None = None) -> None:
        self._core = core
        self._metrics = metrics or WorkerMetrics()
        self._metrics.parsers_name = core.parsers_name

    def stream(
        self, outputs: AsyncIterator[JsonDict], spec: Spec, token_ids: list[int], engine: EngineRequest
    ) -> AsyncGenerator[JsonDict, None]:
        """Return the engine's `outputs` as chunks with a `Post` each; without `spec.stream` as one per choice.

        token_ids: the request's; behind the prompt come tokens that a worker
            which died has generated and sent.
        """
        return Flow(self._core, spec, token_ids, engine, self._metrics).run(outputs)
