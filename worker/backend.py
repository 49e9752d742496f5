"""One request in post-processing, wherever that is done: here (`merge.ChunkScheduler`) or in another process (`pool`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..parsers.base import ParserFactory
from ..postprocess.chunk_scheduler import ChunkScheduler, MergeDelays, ScheduledChunk
from ..postprocess.fallback import OnError, Report
from ..postprocess.messages import Chunk, PostprocessParams
from ..postprocess.postprocessor import Postprocessor, log_failure
from ..postprocess.stage_timing import Clock
from ..tokenization.detokenizer import DetokenizerFactory


class RequestStream(Protocol):
    """What carries one request's chunks from the engine to the client.

    due: when `take` has something that may not wait any longer, on the event loop's
        clock; infinite while there is nothing.
    idle: whether everything added has been taken, or waits here to be.
    oldest: when the first token came that has not been taken; infinite if all have.
    """

    @property
    def due(self) -> float:
        """See above."""
        ...

    @property
    def idle(self) -> bool:
        """See above."""
        ...

    @property
    def oldest(self) -> float:
        """See above."""
        ...

    def add(self, chunk: Chunk, now: float, age_s: float = 0.0) -> None:
        """See `ChunkScheduler.add`."""
        ...

    def take(self, now: float) -> list[ScheduledChunk]:
        """Return what is due. Raises `ParserFailedError` if a parser raised and that is to fail the request."""
        ...

    def flush(self, now: float) -> None:
        """Make everything due: nothing more will come."""
        ...

    def engine_wait_s(self, index: int) -> float:
        """For how long the engine may collect tokens of a choice before it hands them over."""
        ...

    async def room(self) -> None:
        """Wait until more may be added."""
        ...

    def close(self) -> None:
        """Forget the request, finished or not."""
        ...


class PostprocessBackend(Protocol):
    """Starts the work on requests; one per worker. parsers_name: see `ParserFactory.name`."""

    @property
    def parsers_name(self) -> str:
        """See above."""
        ...

    def start(
        self,
        params: PostprocessParams,
        token_ids: Sequence[int],
        now: float,
        wake: Callable[[], None],
        clock: Clock | None = None,
    ) -> RequestStream:
        """Return the work on a request.

        token_ids: the request's; behind the prompt come tokens that a worker which
            died has generated and sent.
        wake: called when `due` comes nearer by itself, not in `add`.
        clock: if what each stage takes is to be measured.
        """
        ...


class InlineStream(ChunkScheduler):
    """RequestStream in this very process: what is added is done."""

    idle = True

    async def room(self) -> None:
        """See `RequestStream`."""

    def close(self) -> None:
        """See `RequestStream`."""


class InlineBackend:
    """PostprocessedChunk-processes in this process, which is cheaper than any hand-over for everything but slow parsers."""

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
        self.parsers_name = parsers.name

    def start(
        self,
        params: PostprocessParams,
        token_ids: Sequence[int],
        now: float,
        wake: Callable[[], None],
        clock: Clock | None = None,
    ) -> InlineStream:
        """See `PostprocessBackend`."""
        post = Postprocessor(
            params,
            self._detokenizers,
            self._parsers,
            prompt_token_ids=token_ids[: params.prompt_length],
            on_error=self._on_error,
            report=self._report,
        )
        stream = InlineStream(post, self._delays)
        if clock is not None:
            stream.measure(clock)
        stream.resume(token_ids[params.prompt_length :], now)
        return stream
