"""What the frontend's metrics say, and that Dynamo gets them; tests/worker has the page's tests."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from backedge.base.errors import ParserFailedError
from backedge.engines.dynamo.metrics import PoolStats
from backedge.frontend.metrics import FrontendMetrics, LocalParsing
from backedge.frontend.turns.turn_store import TurnStore
from backedge.tokenization.prompt_cache import PromptCache


def samples(text: str) -> dict[str, float]:
    return {
        name.removeprefix("backedge_prompt_cache_"): float(value)
        for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        if name.startswith("backedge_prompt_cache_")
    }


def test_dynamo_gets_what_the_cache_has_done() -> None:
    callbacks: list[Callable[[], str]] = []
    metrics = SimpleNamespace(
        register_prometheus_expfmt_callback=callbacks.append,
        register_prometheus_typed_callback=lambda _: None,
    )
    endpoint: Any = SimpleNamespace(metrics=metrics)
    cache = PromptCache(50_000)
    FrontendMetrics(cache, None, TurnStore(0), LocalParsing()).expose(endpoint)
    [callback] = callbacks
    assert set(samples(callback()).values()) == {0.0, 50_000.0}
    cache.add(1, ["text"], [[1, 2]])
    cache.count([(1,) * 40, None], 20, 0.5)
    found = samples(callback())
    assert found == {
        'parts_total{outcome="hit"}': 1,
        'parts_total{outcome="miss"}': 1,
        'tokens_total{source="cache"}': 40,
        'tokens_total{source="tokenizer"}': 20,
        "saved_seconds_total": 1.0,
        "tokenizer_seconds_total": 0.5,
        "bytes": cache.size,
        "limit_bytes": 50_000,
    }


class RunningPool:
    size, depth, stats = 2, 3, PoolStats(kills=1, moved_requests=2)

    def __init__(self, pids: list[int]) -> None:
        self.pids = pids


def test_parsers_that_fail_and_pools_that_run_are_counted() -> None:
    parsing = LocalParsing()
    parsing.pools.update(RunningPool(pids) for pids in ([1, 2], [3]))
    for name in ("mine", "mine", "other"):
        parsing.report(ParserFailedError(name, "r", 4, "it is slow"))
    parsing.count_regenerated("hermes")("slip", "complete", 7)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in parsing.collect()
        for sample in getattr(family, "samples", ())
        if sample.value or not sample.name.startswith("backedge_calls_regenerated")
    }
    assert found == {
        ("backedge_calls_regenerated_total", "hermes", "slip", "complete"): 1,
        ("backedge_discarded_tokens_total",): 7,
        ("backedge_parser_errors_total", "none"): 0,
        ("backedge_parser_errors_total", "mine"): 2,
        ("backedge_parser_errors_total", "other"): 1,
        ("backedge_pool_processes", "serving"): 3,
        ("backedge_pool_processes", "starting"): 1,
        ("backedge_pool_depth",): 6,
        ("backedge_pool_deadline_kills_total",): 2,
        ("backedge_pool_deaths_total",): 0,
        ("backedge_pool_replays_total",): 4,
    }
