"""The worker's metrics, on Dynamo's own /metrics; docs/metrics.md describes each."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import inf
from typing import Literal, Protocol, get_args

from typing_extensions import override

from ..base.errors import ParserFailedError
from ..base.log import get_logger
from ..engines.dynamo.metrics import (
    Collector,
    MetricFamily,
    RegeneratedCalls,
    build_info,
    count_parser_errors,
    count_pools,
    count_recordings,
    counter,
    family,
    gauge,
)
from ..parsers.events import MALFORMATIONS
from ..postprocess.call_hold import CallFault, RegenerationOutcome
from ..postprocess.chunk_scheduler import ScheduledChunk
from ..postprocess.delta_builder import CallOutcome
from ..postprocess.messages import ChoiceDelta
from ..postprocess.stage_timing import Clock, Stage
from ..recording.recording import Outcome
from ..recording.writer import RecordingCounts
from .pool import PoolSupervisor

logger = get_logger(__name__)

Kind = Literal["content", "reasoning", "tools", "none"]

# Measuring costs some microseconds per token, so few requests are measured, and not the first,
# which fills caches.
MEASURED_ONE_IN = 64
FIRST_MEASURED = 2
WAIT_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class RequestInFlight(Protocol):
    """A request that is being answered."""

    @property
    def oldest(self) -> float:
        """When the oldest unsent token arrived; infinite if all were sent."""


class WorkerMetrics(Collector):
    """Counters of one worker.

    A collector instead of Counters, because the engines switch prometheus_client to
    multiprocess mode, where a Counter becomes a file that only their scrape reads. Dynamo
    collects in another thread, so collections are copied before they are read.

    outputs, tokens: of the engine; `RequestPump` adds to them directly, because a call per
        output would cost too much.
    engine, parsers_name: the values of the labels `engine` and `parser`.
    pool: None for a worker without one.
    recordings: their counts by result.
    """

    def __init__(self) -> None:
        self.outputs = 0
        self.tokens = 0
        self.engine = "none"
        self.parsers_name = "none"
        self.pool: PoolSupervisor | None = None
        self.recordings = RecordingCounts()
        self._running: set[RequestInFlight] = set()
        self._started = 0
        self._ended: dict[Outcome, int] = dict.fromkeys(get_args(Outcome), 0)
        self._waits = {kind: _Histogram() for kind in get_args(Kind)}
        self._seconds: dict[Stage, float] = dict.fromkeys(get_args(Stage), 0.0)
        self._stage_tokens: dict[Stage, int] = dict.fromkeys(get_args(Stage), 0)
        self._calls: dict[CallOutcome, int] = dict.fromkeys(get_args(CallOutcome), 0)
        self._errors: dict[str, int] = {}
        self._regenerated = RegeneratedCalls()

    def start_request(self, request: RequestInFlight) -> Clock | None:
        """Count a new request; return a clock if its stages are to be measured."""
        self._running.add(request)
        self._started += 1
        return time.perf_counter if self._started % MEASURED_ONE_IN == FIRST_MEASURED else None

    def end_request(self, request: RequestInFlight, outcome: Outcome) -> None:
        """Count the end of a request."""
        self._running.discard(request)
        self._ended[outcome] += 1

    def count_chunk(self, scheduled: ScheduledChunk, *, streams: bool) -> None:
        """Count a sent chunk. streams: whether the client gets its text at once."""
        waits = self._waits[read_kind(scheduled.deltas) if streams else "none"]
        waits.sum += scheduled.waited_s
        waits.counts[bisect_left(WAIT_BUCKETS_S, scheduled.waited_s)] += 1
        if scheduled.calls:
            for call in scheduled.calls:
                self._calls[call] += 1
        if scheduled.times:
            for time_ in scheduled.times:
                self._seconds[time_.stage] += time_.seconds
                self._stage_tokens[time_.stage] += time_.tokens

    def count_regenerated(
        self, fault: CallFault, outcome: RegenerationOutcome, discarded: int
    ) -> None:
        """Count a malformed call, and the tokens that were discarded to generate it again."""
        self._regenerated.add(self.parsers_name, fault, outcome, discarded)

    def report(self, failure: ParserFailedError) -> None:
        """Count and log a parser that raised. This is a `fallback.Report`."""
        self._errors[failure.parser] = self._errors.get(failure.parser, 0) + 1
        logger.error("%s", failure, exc_info=failure.__cause__)

    @override
    def collect(self) -> Iterable[MetricFamily]:
        return [
            build_info(self.engine),
            *self._traffic(),
            *self._latency(),
            *self._cost(),
            *self._correctness(),
            *count_pools([] if self.pool is None else [self.pool]),
            *count_recordings(self.recordings),
        ]

    def _traffic(self) -> list[MetricFamily]:
        chunks = sum(waits.count for waits in self._waits.values())
        return [
            counter("requests_started", "Requests received for post-processing.", self._started),
            counter("requests", "Finished requests by outcome.", self._ended, "outcome"),
            gauge("requests_in_flight", "Requests in post-processing now.", len(self._running)),
            counter("engine_tokens", "Tokens received from the engine.", self.tokens),
            counter("engine_outputs", "Engine outputs that contained them.", self.outputs),
            counter("chunks", "Chunks sent to the frontend.", chunks),
        ]

    def _latency(self) -> list[MetricFamily]:
        oldest = min((request.oldest for request in tuple(self._running)), default=inf)
        waited = "How long the first token of a chunk waited to be sent, by kind of text."
        waits = family("Histogram", "chunk_wait_seconds", waited, ["kind"])
        for kind, histogram in self._waits.items():
            waits.add_metric([kind], histogram.buckets(), histogram.sum)
        return [
            waits,
            gauge(
                "oldest_wait_seconds",
                "How long the oldest unsent token has waited.",
                max(0.0, time.monotonic() - oldest) if oldest < inf else 0.0,
            ),
        ]

    def _cost(self) -> list[MetricFamily]:
        return [
            counter(
                "stage_seconds",
                "Time spent in each stage, in the measured requests.",
                self._seconds,
                "stage",
            ),
            counter("stage_tokens", "Tokens processed in this time.", self._stage_tokens, "stage"),
        ]

    def _correctness(self) -> list[MetricFamily]:
        errors = {self.parsers_name: 0, **self._errors}
        ended = (
            "Tool calls of finished choices: complete, cut by a limit, "
            "malformed, or left incomplete by a parser that raised."
        )
        calls = family("Counter", "tool_calls", ended, ["parser", "outcome"])
        left_open = "Tool calls left open because their arguments are no JSON, by kind."
        malformed = family("Counter", "malformed_calls", left_open, ["parser", "kind"])
        total = shown = 0
        for outcome, count in self._calls.items():
            if outcome == "content":
                shown = count
            elif outcome in MALFORMATIONS:
                malformed.add_metric([self.parsers_name, outcome], count)
                total += count
            else:
                calls.add_metric([self.parsers_name, outcome], count)
        calls.add_metric([self.parsers_name, "malformed"], total)
        found = "Answers with tools whose content holds the markup of a call."
        markup = family("Counter", "call_markup_shown", found, ["parser"])
        markup.add_metric([self.parsers_name], shown)
        regenerated = self._regenerated.collect([self.parsers_name])
        return [count_parser_errors(errors), calls, malformed, markup, *regenerated]


class _Histogram:
    """Counts by bucket of `WAIT_BUCKETS_S`, the last for longer times. sum: in seconds."""

    def __init__(self) -> None:
        self.sum = 0.0
        self.counts = [0] * (len(WAIT_BUCKETS_S) + 1)

    @property
    def count(self) -> int:
        """The number of samples."""
        return sum(self.counts)

    def buckets(self) -> Sequence[tuple[str, int]]:
        """Return the cumulative counts by upper bound, as prometheus_client expects them."""
        total = 0
        buckets = []
        for bound, count in zip((*WAIT_BUCKETS_S, inf), self.counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound == inf else str(bound), total))
        return buckets


def read_kind(deltas: Sequence[ChoiceDelta]) -> Kind:
    """Return the kind of text in the first of a stream's deltas."""
    if not deltas:
        return "none"
    delta = deltas[0].delta
    if delta.tool_calls:
        return "tools"
    if delta.reasoning_content is not None:
        return "reasoning"
    return "none" if delta.content is None else "content"
