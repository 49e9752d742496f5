"""Where nobody needs tokens sooner, the engine is asked for groups of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from backedge.base.json_types import JsonObject
from backedge.postprocess.chunk_scheduler import ENGINE_PART
from backedge.postprocess.settings import MERGE_DELAYS
from backedge.worker.token_rate import MAX_ENGINE_TOKENS

from tests.support import encode
from tests.worker.scripted import (
    LOWEST,
    CountingBackend,
    Engine,
    Sent,
    answer,
    count_tokens,
    output,
    run_in_virtual_time,
)


@dataclass
class CollectingEngine(Engine):
    """Generates "a" at given moments, and hands it over in the groups that it is asked for."""

    moments: Sequence[float] = ()
    group: int = 1

    def set_stream_interval(self, index: int, tokens: int) -> None:
        super().set_stream_interval(index, tokens)
        self.group = tokens

    async def outputs(self) -> AsyncIterator[JsonObject]:
        loop = asyncio.get_running_loop()
        began, held = loop.time(), 0
        for number, moment in enumerate(self.moments, 1):
            await asyncio.sleep(began + moment - loop.time())
            held += 1
            if held >= self.group or number == len(self.moments):
                yield output(
                    encode("a") * held, 0, "length" if number == len(self.moments) else None
                )
                held = 0


def steady(count: int, gap: float, start: float = 0.0) -> list[float]:
    return [start + number * gap for number in range(count)]


@pytest.mark.parametrize("latency", ["balanced", "throughput"])
@pytest.mark.parametrize("gap", [0.0005, 0.002, 0.01, 0.05, 1.0])
@pytest.mark.parametrize("stream", [True, False])
def test_the_engine_is_asked_for_groups_that_fit_the_delay(
    latency: Any, gap: float, stream: bool
) -> None:
    engine, delays = CollectingEngine([], moments=steady(1000, gap)), MERGE_DELAYS[latency]
    sent = run_in_virtual_time(answer(engine, CountingBackend(delays), stream=stream))
    delay_s = delays.content if stream else delays.tokens
    groups = [tokens for _, tokens in engine.intervals]
    assert all(
        1 < group <= min(MAX_ENGINE_TOKENS, 1.01 * ENGINE_PART * delay_s / gap) for group in groups
    )
    assert all(later >= 2 * group for group, later in pairwise(groups)), "each change has its price"
    assert bool(groups) == (ENGINE_PART * delay_s / gap >= 2)
    check_delays(engine.moments, sent, delay_s)


def check_delays(moments: Sequence[float], sent: Sequence[Sent], delay_s: float) -> None:
    """Check that each token is out within `delay_s` of being generated."""
    out = [part.at for part in sent for _ in part.chunk["token_ids"]]
    assert len(out) == len(moments)
    assert max(at - moment for at, moment in zip(out, moments, strict=True)) <= delay_s + 0.002


def test_and_for_single_ones_again_when_the_pace_falls() -> None:
    moments = steady(300, 0.002)
    moments += steady(20, 1.0, moments[-1] + 1.0)
    engine = CollectingEngine([], moments=moments)
    sent = run_in_virtual_time(answer(engine, CountingBackend(MERGE_DELAYS["balanced"])))
    groups = [tokens for _, tokens in engine.intervals]
    assert max(groups) > 4
    assert groups[-1] == 1
    assert groups.index(1) == len(groups) - 1
    assert count_tokens(sent) == encode("a") * len(moments)


@pytest.mark.parametrize("fields", [{"stop": ["x"]}, {"stop": ["x"], "stream": False}])
def test_and_never_where_a_stop_string_may_have_to_end_it(fields: JsonObject) -> None:
    engine = CollectingEngine([], moments=steady(300, 0.001))
    run_in_virtual_time(answer(engine, CountingBackend(MERGE_DELAYS["throughput"]), **fields))
    assert engine.intervals == []


def test_and_never_with_the_lowest_latency() -> None:
    engine = CollectingEngine([], moments=steady(300, 0.001))
    run_in_virtual_time(answer(engine, CountingBackend(LOWEST)))
    assert engine.intervals == []
