"""What an operator has to know of the parsers, on Dynamo's own /metrics."""

from __future__ import annotations

import logging
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from ..parsers.errors import ParserFailedError

logger = logging.getLogger(__name__)


class ParserMetrics(Collector):
    """Counts parsers that raised, by parser.

    A collector of our own, not a Counter: vLLM switches prometheus_client to its
    multiprocess mode, where a Counter becomes a file that only vLLM's scrape reads.
    """

    def __init__(self) -> None:
        self._errors: dict[str, int] = {}

    def report(self, failure: ParserFailedError) -> None:
        """Count and log one failure; see `postprocess.guard.Report`."""
        self._errors[failure.parser] = self._errors.get(failure.parser, 0) + 1
        logger.error("%s", failure, exc_info=failure.__cause__)

    def collect(self) -> list[CounterMetricFamily]:
        """Return the metrics, for prometheus_client."""
        errors = CounterMetricFamily(
            "backedge_parser_errors",
            "Requests whose parser raised; they went on as raw text, or failed.",
            labels=["parser"],
        )
        for parser, count in self._errors.items():
            errors.add_metric([parser], count)
        return [errors]

    def expose(self, endpoint: Any) -> None:
        """Add the metrics to those of Dynamo's `endpoint`."""
        from dynamo.common.utils.prometheus import register_engine_metrics_callback

        registry = CollectorRegistry()
        registry.register(self)
        register_engine_metrics_callback(endpoint=endpoint, registry=registry)
