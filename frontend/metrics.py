"""The frontend's metrics, on its own /metrics next to Dynamo's; docs/metrics.md has a list."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from typing_extensions import override

from ..base.errors import ParserFailedError
from ..engines.dynamo.metrics import (
    Collector,
    MetricFamily,
    Pool,
    RegeneratedCalls,
    build_info,
    count_parser_errors,
    count_pools,
    count_recordings,
    counter,
    gauge,
)
from ..postprocess.call_hold import CallFault, RegenerationOutcome
from ..postprocess.postprocessor import log_failure
from ..recording.writer import RecordingCounts
from ..tokenization.prompt_cache import PromptCache
from .turns.turn_store import TurnStore

# Nothing is served there; Dynamo keeps callbacks of metrics with an endpoint.
ENDPOINT = "backedge.frontend.prompts"


class LocalParsing:
    """How this frontend has parsed the streams of plain workers.

    pools: that are running, of all models.
    """

    def __init__(self) -> None:
        self.pools: set[Pool] = set()
        self._regenerated = RegeneratedCalls()
        self._regenerating: set[str] = set()
        self._errors = {"none": 0}

    def report(self, failure: ParserFailedError) -> None:
        """Count and log a parser that raised. This is a `fallback.Report`."""
        self._errors[failure.parser] = self._errors.get(failure.parser, 0) + 1
        log_failure(failure)

    def count_regenerated(
        self, parsers: str
    ) -> Callable[[CallFault, RegenerationOutcome, int], None]:
        """Return what counts malformed calls of `parsers`, and the tokens discarded for them."""
        self._regenerating.add(parsers)
        return functools.partial(self._regenerated.add, parsers)

    def collect(self) -> Iterable[MetricFamily]:
        """Return the metrics. Dynamo calls this in another thread, so it reads copies."""
        return [
            count_parser_errors(self._errors.copy()),
            *count_pools([*self.pools]),
            *self._regenerated.collect([*self._regenerating]),
        ]


class FrontendMetrics(Collector):
    """The metrics of one frontend.

    cache: of the prompts of all models. recordings: None if no requests are recorded.
    """

    def __init__(
        self,
        cache: PromptCache,
        recordings: RecordingCounts | None,
        turns: TurnStore,
        parsing: LocalParsing,
    ) -> None:
        self._cache = cache
        self._turns = turns
        self._recordings = recordings or RecordingCounts()
        self._parsing = parsing

    @override
    def collect(self) -> Iterable[MetricFamily]:
        cache, counts = self._cache, self._cache.counts
        return [
            build_info("none"),
            counter(
                "prompt_cache_parts",
                "Parts of prompts that were looked for in the cache.",
                {"hit": counts.hits, "miss": counts.misses},
                "outcome",
            ),
            counter(
                "prompt_cache_tokens",
                "Tokens of prompts that were cut into parts, by where they came from.",
                {"cache": counts.hit_tokens, "tokenizer": counts.missed_tokens},
                "source",
            ),
            counter(
                "prompt_cache_saved_seconds",
                "Estimated time that the cache has saved.",
                counts.saved_seconds,
            ),
            counter(
                "prompt_cache_tokenizer_seconds",
                "Time spent in tokenizing what the cache did not have.",
                counts.seconds,
            ),
            gauge("prompt_cache_bytes", "Memory of the cache.", cache.size),
            gauge("prompt_cache_limit_bytes", "What it may take at most.", cache.capacity),
            *count_recordings(self._recordings),
            *self._of_turns(),
            *self._parsing.collect(),
        ]

    def _of_turns(self) -> list[MetricFamily]:
        counts = self._turns.counts
        return [
            counter(
                "turns",
                "Answers that were kept, and that were restored in a later request.",
                {
                    "kept": counts.kept,
                    "restored": counts.restored,
                    "spliced": counts.spliced,
                    "fetched": counts.fetched,
                },
                "result",
            ),
            counter(
                "turns_missed",
                "Answers that were not kept or not restored, by reason.",
                counts.missed,
                "reason",
            ),
            gauge("turns_bytes", "Memory of the answers.", self._turns.size),
            gauge("turns_limit_bytes", "What they may take at most.", self._turns.capacity),
        ]
