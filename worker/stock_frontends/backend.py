"""The post-processing of a stock frontend's requests: text, stop strings and merging."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from typing_extensions import override

from ...postprocess.chunk_scheduler import MERGE_DELAYS, MergeDelays, ScheduledChunk
from ...postprocess.messages import ChoiceDelta, Delta, PostprocessParams
from ...postprocess.postprocessor import Postprocessor
from ...postprocess.raw_text import RawTexts, TextRun
from ...postprocess.stage_timing import Clock
from ...recording.recorder import Recorder
from ...tokenization.detokenizer import DetokenizerFactory
from ..backend import InlineStream, PostprocessBackend
from ..metrics import WorkerMetrics
from ..request_stream import WorkerPostprocessor
from .writer import StockWriter


class StockStream(InlineStream):
    """Chunks with the tokens of their text, cut at markers."""

    def __init__(self, postprocessor: Postprocessor, delays: MergeDelays, texts: RawTexts) -> None:
        super().__init__(postprocessor, delays)
        self._texts = texts.choices
        # By choice: tokens whose text is held back, and the number of tokens already sent.
        self._waiting: list[list[int]] = [[] for _ in texts.choices]
        self._sent = [0 for _ in texts.choices]

    @override
    def take(self, now: float) -> list[ScheduledChunk]:
        return [part for chunk in super().take(now) for part in self._split(chunk)]

    def _split(self, chunk: ScheduledChunk) -> list[ScheduledChunk]:
        """Split `chunk` into one chunk for each run of its text that may be sent."""
        index = chunk.index
        self._waiting[index] += chunk.token_ids
        # A chunk without a delta is due because its time is over.
        whole = chunk.finished or not chunk.deltas
        parts = [self._part(chunk, run) for run in self._texts[index].take(whole=whole)]
        if not chunk.finished:
            return parts
        # The tokens of a stop string and the token that ended the choice have no text. White space
        # with which the finish came would be lost to Dynamo's parsers.
        rest = self.postprocessor.choices[index].tokens - self._sent[index]
        if not parts or (rest and (parts[-1].deltas[0].delta.content or "").isspace()):
            parts.append(self._part(chunk, TextRun()))
        last, end = parts[-1], chunk.deltas[-1]
        last.token_ids += self._waiting[index][:rest]
        last.deltas = [ChoiceDelta(index, last.deltas[0].delta, end.finish_reason, end.stop_reason)]
        last.finished, last.ended_early, last.times = True, chunk.ended_early, chunk.times
        return parts

    def _part(self, chunk: ScheduledChunk, run: TextRun) -> ScheduledChunk:
        index = chunk.index
        waiting = self._waiting[index]
        token_ids, self._waiting[index] = waiting[: run.tokens], waiting[run.tokens :]
        self._sent[index] += run.tokens
        delta = ChoiceDelta(index, Delta(content=run.text))
        return ScheduledChunk(index, token_ids, [delta], chunk.waited_s)


class StockBackend(PostprocessBackend):
    """Post-processes in this process.

    markers: of the frontend's parsers; each gets a chunk without other text. None for chunks of
        one token.
    """

    def __init__(
        self,
        detokenizers: DetokenizerFactory,
        markers: Sequence[str] | None,
        delays: MergeDelays,
        metrics: WorkerMetrics,
    ) -> None:
        self._detokenizers = detokenizers
        self._markers = markers
        self._delays = delays if markers is not None else MERGE_DELAYS["lowest"]
        self._metrics = metrics

    @property
    @override
    def parsers_name(self) -> str:
        return self._metrics.parsers_name  # those of the requests that are parsed here

    @override
    def start(
        self,
        params: PostprocessParams,
        token_ids: Sequence[int],
        now: float,
        wake: Callable[[], None],
        clock: Clock | None = None,
    ) -> StockStream:
        texts = RawTexts(self._markers)
        postprocessor = Postprocessor(
            params,
            self._detokenizers,
            texts,
            prompt_token_ids=token_ids,
            report=self._metrics.report,
            clock=clock,
        )
        return StockStream(postprocessor, self._delays, texts)


def build_stock_postprocessor(
    detokenizers: DetokenizerFactory,
    markers: Sequence[str] | None,
    delays: MergeDelays,
    metrics: WorkerMetrics,
    show: Callable[[Exception], Exception],
    recorder: Recorder | None = None,
) -> WorkerPostprocessor:
    """Build the post-processor for stock frontends' requests in a worker.

    markers: as for `StockBackend`. show: as for `WorkerPostprocessor`. recorder: the one for
        the worker's other requests; None to record nothing.
    """
    backend = StockBackend(detokenizers, markers, delays, metrics)
    write = functools.partial(StockWriter, detokenizers)
    unparsed = None if recorder is None else recorder.without_parsers()
    return WorkerPostprocessor(backend, metrics, show, write, unparsed)
