"""Backends of post-processing: in this process, or in those of the pool.

A backend starts a stream for each request. The request pump feeds the stream what the engine
generates and takes the chunks that are due.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from typing_extensions import override

from ..parsers.base import ParserFactory
from ..postprocess.chunk_scheduler import ChunkScheduler, ScheduledChunk
from ..postprocess.fallback import Report
from ..postprocess.messages import Chunk, PostprocessParams
from ..postprocess.postprocessor import Postprocessor, log_failure
from ..postprocess.settings import PostprocessSettings
from ..postprocess.stage_timing import Clock
from ..tokenization.detokenizer import DetokenizerFactory


class RequestStream(Protocol):
    """One request in post-processing. Times are seconds on the event loop's clock."""

    @property
    def due(self) -> float:
        """When `take` has chunks that may wait no longer; infinite if none wait."""

    @property
    def idle(self) -> bool:
        """Whether all input has been processed, so that its output was taken or is due."""

    @property
    def oldest(self) -> float:
        """When the oldest token arrived that has not been taken; infinite if all were."""

    def add(self, chunk: Chunk, now: float, age_s: float = 0.0) -> None:
        """Process a chunk from the engine, where its first token may have waited `age_s`.

        Raises `ParserFailedError` if a parser raises and `on_error` is "fail", or if anything else
        in post-processing raises.
        """

    def take(self, now: float) -> list[ScheduledChunk]:
        """Return the chunks that are due. Raises `ParserFailedError` as `add`."""

    def flush(self, now: float) -> None:
        """Make every chunk due: the engine has ended the request."""

    def engine_wait_s(self, index: int) -> float:
        """Return how long the engine may collect tokens of choice `index` before delivery."""

    @property
    def room(self) -> Awaitable[None] | None:
        """Await this, and look again, before the next `add`; None: it may be called now."""

    def close(self) -> None:
        """Drop the request, finished or not."""


class NewRequest(NamedTuple):
    """A request whose stream starts `now`.

    token_ids: the request's. After `params.prompt_length`, tokens that another worker generated
        and sent before it died.
    wake: called when `due` moves closer outside of `add`.
    clock: measures the time of each stage; None to measure nothing.
    """

    params: PostprocessParams
    token_ids: Sequence[int]
    now: float
    wake: Callable[[], None] = lambda: None
    clock: Clock | None = None


class PostprocessBackend(Protocol):
    """Starts the post-processing of requests; one object per worker."""

    settings: PostprocessSettings

    @property
    def parsers_name(self) -> str:
        """The parsers' label on /metrics."""

    def start(self, new: NewRequest) -> RequestStream:
        """Start the stream of a request. Raises `ParserFailedError` as `RequestStream.add`."""


class InlineBackend(PostprocessBackend):
    """Post-processes in this process: cheaper than the pool unless parsers are slow."""

    def __init__(
        self,
        detokenizers: DetokenizerFactory,
        parsers: ParserFactory,
        settings: PostprocessSettings,
        report: Report = log_failure,
    ) -> None:
        self._detokenizers = detokenizers
        self._parsers = parsers
        self.settings = settings
        self._report = report

    @property
    @override
    def parsers_name(self) -> str:
        return self._parsers.name

    @override
    def start(self, new: NewRequest) -> ChunkScheduler:
        stream = ChunkScheduler(self.build(new, self._parsers), self.settings.delays)
        stream.resume(new.token_ids[new.params.prompt_length :], new.now)
        return stream

    def build(self, new: NewRequest, parsers: ParserFactory) -> Postprocessor:
        """Return the post-processor of a request. Raises as `start`."""
        return Postprocessor(
            new.params,
            self._detokenizers,
            parsers,
            prompt_token_ids=new.token_ids[: new.params.prompt_length],
            on_error=self.settings.on_error,
            report=self._report,
            clock=new.clock,
        )
