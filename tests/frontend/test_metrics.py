"""What the frontend's metrics say, and that Dynamo gets them; tests/worker has the page's tests."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from backedge.frontend.metrics import FrontendMetrics
from backedge.tokenization.prompt_encoder import PromptCache


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
    FrontendMetrics(cache).expose(endpoint)
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
