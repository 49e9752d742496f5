"""The frontend's metrics, on its own /metrics next to Dynamo's; docs/metrics.md has a list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..engines.dynamo.types import Runtime
from ..recording.writer import RecordingCounts
from ..tokenization.prompt_encoder import PromptCache

# Nothing is served there; Dynamo keeps callbacks of metrics with an endpoint.
ENDPOINT = "backedge.frontend.prompts"


class MetricFamily(Protocol):
    """One of prometheus_client's metric families."""

    def add_metric(self, labels: list[str], value: float) -> None:
        """Add a sample with these values of the labels."""
        ...


class FrontendMetrics:
    """A collector for prometheus_client.

    cache: of the prompts of all models. recordings: None if no requests are recorded.
    """

    def __init__(self, cache: PromptCache, recordings: RecordingCounts | None = None) -> None:
        self._cache = cache
        self._recordings = recordings or RecordingCounts()

    def expose(self, runtime: Runtime) -> None:
        """Add the metrics to those of the process that has `runtime`."""
        from dynamo.common.utils.prometheus import register_engine_metrics_callback
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(self)
        register_engine_metrics_callback(endpoint=runtime.endpoint(ENDPOINT), registry=registry)

    def collect(self) -> Iterable[MetricFamily]:
        """Return all metrics, for prometheus_client."""
        return [*self._of_prompts(), *self._of_recordings()]

    def _of_recordings(self) -> list[MetricFamily]:
        from prometheus_client.core import CounterMetricFamily

        recordings = CounterMetricFamily(
            "backedge_recordings",
            "Requests chosen to be recorded, by what became of the recording.",
            labels=["result"],
        )
        for result, number in self._recordings.results.items():
            recordings.add_metric([result], number)
        return [
            recordings,
            CounterMetricFamily(
                "backedge_recording_bytes",
                "Bytes of recordings that were written.",
                self._recordings.written_bytes,
            ),
        ]

    def _of_prompts(self) -> list[MetricFamily]:
        # Late: SGLang sets the folder of its files after it has imported this module.
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        cache, counts = self._cache, self._cache.counts
        parts = CounterMetricFamily(
            "backedge_prompt_cache_parts",
            "Parts of prompts that were looked for in the cache.",
            labels=["outcome"],
        )
        parts.add_metric(["hit"], counts.hits)
        parts.add_metric(["miss"], counts.misses)
        tokens = CounterMetricFamily(
            "backedge_prompt_cache_tokens",
            "Tokens of prompts that were cut into parts, by where they came from.",
            labels=["source"],
        )
        tokens.add_metric(["cache"], counts.hit_tokens)
        tokens.add_metric(["tokenizer"], counts.missed_tokens)
        return [
            parts,
            tokens,
            CounterMetricFamily(
                "backedge_prompt_cache_saved_seconds",
                "Estimated time that the cache has saved.",
                counts.saved_seconds,
            ),
            CounterMetricFamily(
                "backedge_prompt_cache_tokenizer_seconds",
                "Time spent in tokenizing what the cache did not have.",
                counts.seconds,
            ),
            GaugeMetricFamily("backedge_prompt_cache_bytes", "Memory of the cache.", cache.size),
            GaugeMetricFamily(
                "backedge_prompt_cache_limit_bytes", "What it may take at most.", cache.capacity
            ),
        ]
