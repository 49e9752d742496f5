"""Hostile output in processes of the pool, beside honest answers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from backedge.parsers.base import ParserRequest
from backedge.postprocess import Chunk
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import ChoiceDelta, PostprocessParams
from backedge.worker.backend import NewRequest

from tests.hostile.campaign import WHOLE
from tests.hostile.hostile_text import LONG_NATIVE, SHORT, build_runs, check_deltas
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS
from tests.support import encode, params
from tests.worker.pool.pools import in_pool

LINEAR = [("linear", "hermes"), ("linear", "qwen3_coder"), ("linear", "pythonic")]
NATIVE = [("vllm", "tool hermes"), ("sglang", "tool qwen25"), ("sglang", "tool pythonic")]
AT_ONCE = 24


async def send(pool: Any, request: PostprocessParams, ids: Sequence[int]) -> list[ChoiceDelta]:
    """Return the deltas of an answer; chunks have one token, two, three and so on."""
    wake, loop = asyncio.Event(), asyncio.get_running_loop()
    stream = pool.start(NewRequest(request, [], loop.time(), wake.set))
    deltas: list[ChoiceDelta] = []
    rest = list(ids)
    for size in itertools.count(1):
        if not rest:
            break
        while (room := stream.room) is not None:
            await room
        stream.add(Chunk(token_ids=rest[:size]), loop.time())
        rest = rest[size:]
        await asyncio.sleep(0)
    stream.add(Chunk(finish_reason="stop"), loop.time())
    while not deltas or deltas[-1].finish_reason is None:
        wake.clear()
        while stream.due <= loop.time():
            deltas += [delta for part in stream.take(loop.time()) for delta in part.deltas]
        if not deltas or deltas[-1].finish_reason is None:
            await wake.wait()
    stream.close()
    return deltas


def outcome(deltas: Sequence[ChoiceDelta]) -> ChoiceDelta:
    whole = aggregate_deltas(deltas)
    for call in whole.delta.tool_calls:
        call.id = None
    return whole


def spoil(honest: str, pieces: Sequence[str]) -> list[str]:
    return [
        honest[:middle] + piece + honest[middle:]
        for number, piece in enumerate(pieces)
        for middle in [len(honest) * (number % 7 + 1) // 8]
    ]


def check(
    engine: str, name: str, request: PostprocessParams, honest: Sequence[int], texts: Any
) -> None:
    async def test(pool: Any) -> None:
        expected = outcome(await send(pool, request, honest))
        for batch in batches(texts):
            found = await asyncio.gather(
                *(send(pool, request, ids) for ids in (*batch, honest, honest))
            )
            for deltas in found:
                check_deltas(deltas)
            assert [outcome(deltas) for deltas in found[-2:]] == [expected] * 2
        assert pool.stats.deaths == 0
        assert pool.requests == 0

    in_pool(
        test, build="tests.hostile.pooled_parts:build", deadline_s=5.0, engine=engine, name=name
    )


def batches(texts: Sequence[Any]) -> list[Sequence[Any]]:
    return [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)]


@pytest.mark.parametrize(("engine", "name"), LINEAR if WHOLE else LINEAR[:1])
def test_linear_parsers(engine: str, name: str) -> None:
    outputs = [case.output for case in FAMILIES[name].all_cases() if len(case.output) < 400]
    request = params(parser=ParserRequest(tools=list(TOOLS), tool_choice="auto"))
    texts = spoil(outputs[1], [*SHORT, *build_runs(300)])
    check(engine, name, request, encode(outputs[1]), [encode(text) for text in texts])


@pytest.mark.skipif(not WHOLE, reason="the engines take half a minute each to be imported")
@pytest.mark.parametrize(("engine", "name"), NATIVE)
def test_native_parsers(engine: str, name: str) -> None:
    from benchmarks.samples.tokenizers import encode as encode_sample
    from benchmarks.samples.tokenizers import load_tokenizer
    from tests.parsers.cases import CASES, SGLANG_CASES

    sample = (SGLANG_CASES if engine == "sglang" else CASES)[name].sample
    tokenizer = load_tokenizer(sample)
    request = params(parser=ParserRequest(tools=list(sample.tools), tool_choice="auto"))
    texts = spoil(sample.output, [*SHORT, *build_runs(LONG_NATIVE)])
    honest = encode_sample(tokenizer, sample.output)
    check(engine, name, request, honest, [encode_sample(tokenizer, text) for text in texts])
