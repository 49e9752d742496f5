"""Where requests are post-processed: in this process, or in those of the pool.

A backend starts a stream for each request; the request pump feeds it what the engine
generates, and takes the chunks that are due.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from typing_extensions import override

from ..parsers.base import ParserFactory
from ..postprocess.chunk_scheduler import ChunkScheduler, MergeDelays, ScheduledChunk
from ..postprocess.fallback import OnError, Report
from ..postprocess.messages import Chunk, PostprocessParams
from ..postprocess.postprocessor import Postprocessor, log_failure
from ..postprocess.stage_timing import Clock
from ..tokenization.detokenizer import DetokenizerFactory


class RequestStream(Protocol):
    """One request in post-processing. Times are seconds on the event loop's clock."""

    @property
    def due(self) -> float:
        """When `take` has something that may not wait any longer; infinite if nothing waits."""
        ...

    @property
    def idle(self) -> bool:
        """Whether everything added has been taken or is ready to be."""
        ...

    @property
    def oldest(self) -> float:
        """When the first token came that has not been taken; infinite if all have."""
        ...

    def add(self, chunk: Chunk, now: float, age_s: float = 0.0) -> None:
        """Take a chunk of the engine; its first token may have waited there for `age_s`.

        Raises `ParserFailedError` if a parser raises and that is to fail the request, or if
        anything else in post-processing raises.
        """
        ...

    def take(self, now: float) -> list[ScheduledChunk]:
        """Return what is due. Raises `ParserFailedError` as `add`."""
        ...

    def flush(self, now: float) -> None:
        """Make everything due: the engine has ended the request."""
        ...

    def engine_wait_s(self, index: int) -> float:
        """Return how long the engine may collect tokens of choice `index` before delivery."""
        ...

    @property
    def full(self) -> bool:
        """Whether nothing may be added now; then `room` waits until it may."""
        ...

    async def room(self) -> None:
        """Wait until more may be added."""
        ...

    def close(self) -> None:
        """Forget the request, finished or not."""
        ...


class PostprocessBackend(Protocol):
    """Starts the post-processing of requests; one per worker."""

    @property
    def parsers_name(self) -> str:
        """The name of the parsers, as on /metrics."""
        ...

    def start(
        self,
        params: PostprocessParams,
        token_ids: Sequence[int],
        now: float,
        wake: Callable[[], None],
        clock: Clock | None = None,
    ) -> RequestStream:
        """Return a stream for a new request.

        token_ids: the request's. After `params.prompt_length` come tokens that another
            worker has generated and sent before it died.
        wake: called when `due` comes nearer by itself, not in `add`.
        clock: given if the time of each stage is to be measured.
        Raises `ParserFailedError` as `RequestStream.add`.
        """
        ...


class InlineStream(ChunkScheduler):
    """A `RequestStream` in this process: what is added is processed at once."""

    idle = True
    full = False

    async def room(self) -> None:
        """Return at once: nothing queues up."""

    def close(self) -> None:
        """Do nothing: nobody else holds the request."""


class InlineBackend(PostprocessBackend):
    """Post-processes in this process: cheaper than a hand-over, unless parsers are slow."""

    def __init__(
        self,
        detokenizers: DetokenizerFactory,
        parsers: ParserFactory,
        delays: MergeDelays,
        on_error: OnError = "degrade",
        report: Report = log_failure,
    ) -> None:
        self._detokenizers = detokenizers
        self._parsers = parsers
        self._delays = delays
        self._on_error = on_error
        self._report = report

    @property
    @override
    def parsers_name(self) -> str:
        return self._parsers.name

    @override
    def start(
        self,
        params: PostprocessParams,
        token_ids: Sequence[int],
        now: float,
        wake: Callable[[], None],
        clock: Clock | None = None,
    ) -> InlineStream:
        postprocessor = Postprocessor(
            params,
            self._detokenizers,
            self._parsers,
            prompt_token_ids=token_ids[: params.prompt_length],
            on_error=self._on_error,
            report=self._report,
            clock=clock,
        )
        stream = InlineStream(postprocessor, self._delays)
        stream.resume(token_ids[params.prompt_length :], now)
        return stream
