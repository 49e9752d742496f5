"""Metrics on Dynamo's /metrics: families of samples, and collectors of them."""

from __future__ import annotations

import abc
import importlib.metadata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Protocol, TypeVar, get_args

import msgspec

from ...base.seams import check_seams
from ...postprocess.call_hold import CallFault, RegenerationOutcome
from ...recording.writer import RecordingCounts
from . import seams
from .types import Endpoint

Label = TypeVar("Label", bound=str)
Values = float | Mapping[Label, float]
"""One number, or numbers by the value of a label."""


class MetricFamily(Protocol):
    """One of prometheus_client's metric families."""

    def add_metric(self, labels: Sequence[str], *values: object) -> None:
        """Add a sample with these values of the labels."""


class Collector(abc.ABC):
    """A collector for prometheus_client."""

    @abc.abstractmethod
    def collect(self) -> Iterable[MetricFamily]:
        """Return all metrics, with a sample of every label value."""

    def expose(self, endpoint: Endpoint) -> None:
        """Add the metrics to those of Dynamo's `endpoint`, if it has a way to add them."""
        if check_seams(seams.METRICS, seams.PACKAGES):
            return
        from dynamo.common.utils.prometheus import register_engine_metrics_callback
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(self)
        register_engine_metrics_callback(endpoint=endpoint, registry=registry)


def counter(name: str, help_: str, values: Values[Label], label: str = "") -> MetricFamily:
    """Return a counter. label: of the values, if they are several."""
    return _add_values(family("Counter", name, help_, [label] if label else []), values)


def gauge(name: str, help_: str, values: Values[Label], label: str = "") -> MetricFamily:
    """Return a gauge; otherwise as `counter`."""
    return _add_values(family("Gauge", name, help_, [label] if label else []), values)


def build_info(engine: str) -> MetricFamily:
    """Return the metric of a process's version. engine: the worker's; "none" in a frontend."""
    said = "Always 1; the labels have the version of Backedge, and the worker's engine."
    info = family("Gauge", "build_info", said, ["version", "engine"])
    info.add_metric([importlib.metadata.version("backedge"), engine], 1)
    return info


def count_recordings(counts: RecordingCounts) -> list[MetricFamily]:
    """Return the metrics of a side's recordings."""
    chosen, written = "Requests chosen for recording, by result.", "Bytes of recordings written."
    return [
        counter("recordings", chosen, counts.results, "result"),
        counter("recording_bytes", written, counts.written_bytes),
    ]


class PoolStats(msgspec.Struct):
    """The counters of a pool.

    kills: processes killed because they exceeded a deadline, or were stopped.
    deaths: processes that died.
    moved_requests: restarts of a request in another process.
    """

    kills: int = 0
    deaths: int = 0
    moved_requests: int = 0


class Pool(Protocol):
    """A pool of processes (`worker.pool.PoolSupervisor`)."""

    @property
    def size(self) -> int:
        """Number of processes that it should have."""

    @property
    def pids(self) -> Collection[int]:
        """The processes that serve."""

    @property
    def depth(self) -> int:
        """Number of chunks that wait or are being processed."""

    @property
    def stats(self) -> PoolStats:
        """The counters since its start."""


def count_pools(pools: Collection[Pool]) -> list[MetricFamily]:
    """Return the metrics of a process's pools, together."""
    serving = sum(len(pool.pids) for pool in pools)
    starting = sum(pool.size for pool in pools) - serving
    return [
        gauge(
            "pool_processes",
            "Processes of the pool, by state.",
            {"serving": serving, "starting": starting},
            "state",
        ),
        gauge(
            "pool_depth",
            "Tokens that wait or are processed in the pool.",
            sum(pool.depth for pool in pools),
        ),
        counter(
            "pool_deadline_kills",
            "Processes killed because a step took too long or something had stopped them.",
            sum(pool.stats.kills for pool in pools),
        ),
        counter(
            "pool_deaths",
            "Processes that died by themselves.",
            sum(pool.stats.deaths for pool in pools),
        ),
        counter(
            "pool_replays",
            "Restarts of a request in another process.",
            sum(pool.stats.moved_requests for pool in pools),
        ),
    ]


class RegeneratedCalls:
    """Counts malformed calls that are generated again, by parsers, and the discarded tokens."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, CallFault, RegenerationOutcome]] = Counter()
        self._discarded = 0

    def add(
        self, parsers: str, fault: CallFault, outcome: RegenerationOutcome, discarded: int
    ) -> None:
        """Count a call, and the tokens that were discarded to generate it again."""
        self._calls[parsers, fault, outcome] += 1
        self._discarded += discarded

    def collect(self, parsers: Iterable[str]) -> list[MetricFamily]:
        """Return the metrics. parsers: names of those that are in use."""
        again = "Malformed calls that were generated again, by what was wrong."
        regenerated = family("Counter", "calls_regenerated", again, ["parser", "reason", "outcome"])
        for labels in product(parsers, get_args(CallFault), get_args(RegenerationOutcome)):
            regenerated.add_metric(labels, self._calls[labels])
        thrown = "Tokens of malformed calls that were generated again."
        return [regenerated, counter("discarded_tokens", thrown, self._discarded)]


def count_parser_errors(errors: Mapping[str, int]) -> MetricFamily:
    """Return the metric of parsers that raised. errors: by the parsers' name."""
    raised = "Choices whose parser raised; they continued as raw text or failed."
    return counter("parser_errors", raised, errors, "parser")


def _add_values(filled: MetricFamily, values: Values[Label]) -> MetricFamily:
    if isinstance(values, Mapping):
        for label, number in values.items():
            filled.add_metric([label], number)
    else:
        filled.add_metric([], values)
    return filled


def family(kind: str, name: str, help_: str, labels: Sequence[str]) -> MetricFamily:
    """Return an empty family.

    Imports prometheus_client late: SGLang configures the folder for its files only after it has
    imported this module.
    """
    from prometheus_client import core as families

    family_class = getattr(families, f"{kind}MetricFamily")
    made: MetricFamily = family_class(f"backedge_{name}", help_, labels=labels)
    return made
