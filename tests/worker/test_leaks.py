"""Thousands of requests, ended in every way: nothing of them is left, here or in the pool.

Measured in a process of its own (`python -m tests.worker.test_leaks inline|pool`), where no
other test disturbs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from backedge.base.errors import ParserFailedError
from backedge.base.json_types import JsonObject
from backedge.postprocess.settings import MERGE_DELAYS, MergeDelays, OnError, PostprocessSettings
from backedge.worker.backend import InlineBackend
from backedge.worker.engine_request import EngineRequestHandle
from backedge.worker.pool import PoolSettings, PoolSupervisor
from backedge.worker.request_stream import WorkerPostprocessor

from tests.support import (
    TRANSCRIPTS,
    encode,
    params,
    parser_request,
    tiny_detokenizers,
    tiny_parsers,
)
from tests.worker.pool.pools import kept_streams
from tests.worker.scripted import BrokenParsers

ROOT = Path(__file__).parents[2]
MIB = 2**20
# Of a request: none may be left.
TYPES = (
    *(
        "RequestPump",
        "PooledStream",
        "ChunkScheduler",
        "Postprocessor",
        "Choice",
        "FallbackParser",
        "DeltaBuilder",
    ),
    *(
        "LinearParser",
        "BrokenParser",
        "StopStringFilter",
        "Engine",
        "Task",
        "TimerHandle",
        "async_generator",
    ),
)
WORDS = [encode(f" {text}") for text in ("one two three", "a x b", "RAISE now", "ж 👋")]
CALL = TRANSCRIPTS["reasoning_call"]
CALL_IDS = encode(CALL["output"])
AT_ONCE = 50


class Engine(EngineRequestHandle):
    """Gives a few tokens, and ends as real ones do, or do not."""

    def __init__(self, token_ids: Sequence[int], ending: str, group: int) -> None:
        self._token_ids, self._ending, self._group = token_ids, ending, group

    async def abort(self, index: int) -> None:
        pass

    def set_stream_interval(self, index: int, tokens: int) -> None:
        pass

    async def outputs(self) -> AsyncIterator[JsonObject]:
        for start in range(0, len(self._token_ids), self._group):
            yield {"token_ids": self._token_ids[start : start + self._group]}
            await asyncio.sleep(0)
        if self._ending == "raises":
            raise RuntimeError("out of memory")
        if self._ending == "error":
            yield {"token_ids": [], "finish_reason": "error: out of memory"}
        elif self._ending == "stalls":
            await asyncio.sleep(0.05)
        if self._ending != "stops short":
            yield {"token_ids": [], "finish_reason": "stop"}


async def request(worker: WorkerPostprocessor, chance: random.Random) -> None:
    """Send one request, as chance will have it; a tenth of the clients goes away."""
    fields: JsonObject = {"stream": chance.random() < 0.8}
    token_ids = chance.choice(WORDS)
    if chance.random() < 0.2:
        token_ids, fields["parser"] = CALL_IDS[: chance.randrange(1, 60)], parser_request(CALL)
    if chance.random() < 0.2:
        fields["stop"] = ["x", "three"]
    ending = chance.choice(["", "", "", "", "raises", "error", "stalls", "stops short"])
    engine = Engine(token_ids, ending, chance.choice([1, 1, 3]))
    died_at = chance.randrange(3) if chance.random() < 0.1 else 0
    stream = worker.stream(engine.outputs(), params(**fields), list(token_ids[:died_at]), engine)
    chunks = chance.randrange(4) if chance.random() < 0.1 else 1000
    with contextlib.suppress(RuntimeError):
        async for _ in stream:
            chunks -= 1
            if chunks <= 0:
                break
    await stream.aclose()


async def load(workers: Sequence[WorkerPostprocessor], count: int, chance: random.Random) -> None:
    for _ in range(count // AT_ONCE):
        await asyncio.gather(*(request(chance.choice(workers), chance) for _ in range(AT_ONCE)))


def resident(pid: int | str = "self") -> int:
    """Return a process's memory in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def children() -> list[str]:
    return [
        pid
        for path in Path("/proc/self/task").glob("*/children")
        for pid in path.read_text().split()
    ]


def left() -> dict[str, int]:
    """Return how many objects of a request there are."""
    gc.collect()
    counts = Counter(type(thing).__name__ for thing in gc.get_objects())
    return {name: counts[name] for name in TYPES if counts[name]}


async def settled() -> None:
    """Wait until what the last requests have left to do is done."""
    await asyncio.sleep(0.3)
    gc.collect()
    await asyncio.sleep(0.1)


def inline_workers() -> list[WorkerPostprocessor]:
    parsers = tiny_parsers()
    backends = [
        InlineBackend(tiny_detokenizers(), parsers, PostprocessSettings(delays=delays))
        for delays in (*MERGE_DELAYS.values(), MergeDelays(content=0.02))
    ]
    broken = [
        InlineBackend(
            tiny_detokenizers(), BrokenParsers(), PostprocessSettings(on_error=way), ignore
        )
        for way in get_args(OnError)
    ]
    return [WorkerPostprocessor(backend) for backend in (*backends, *broken)]


def ignore(failure: ParserFailedError) -> None:
    """Report a failure to nobody."""


async def inline(count: int) -> dict[str, Any]:
    workers, chance = inline_workers(), random.Random(1)
    await load(workers, count // 4, chance)
    await settled()
    before = {"files": open_files(), "children": children(), "left": left()}
    memory = []
    for _ in range(3):
        await load(workers, count // 4, chance)
        await settled()
        memory.append(resident())
    after = {"files": open_files(), "children": children(), "left": left()}
    return {"before": before, "after": after, "memory": {"main": memory}}


def new_pool(on_error: Any) -> PoolSupervisor:
    parts = "tests.worker.pool.pool_parts:build"
    return PoolSupervisor(
        PoolSettings(
            processes=2,
            build=parts,
            arguments={},
            parsers_name="x",
            postprocess=PostprocessSettings(
                delays=MergeDelays(content=0.02), on_error=on_error, deadline_s=20.0
            ),
        ),
        ignore,
    )


async def in_pool(count: int, on_error: Any) -> dict[str, list[int]]:
    pool, chance = new_pool(on_error), random.Random(2)
    await pool.ready()
    workers = [WorkerPostprocessor(pool)]
    memory: dict[str, list[int]] = {str(pid): [] for pid in pool.pids}
    try:
        for _ in range(4):
            await load(workers, count // 4, chance)
            await settled()
            for pid, found in memory.items():
                found.append(resident(pid))
        assert (pool.requests, pool.depth, kept_streams()) == (0, 0, 0)
        assert sorted(map(str, pool.pids)) == sorted(memory), "no process has died"
    finally:
        pool.close()
    return {f"process {pid}": found[1:] for pid, found in memory.items()}


async def pooled(count: int) -> dict[str, Any]:
    await in_pool(AT_ONCE * 4, "degrade")
    await settled()
    before = {"files": open_files(), "children": children(), "left": left()}
    memory: dict[str, list[int]] = {}
    for on_error in ("degrade", "fail"):
        memory |= await in_pool(count // 2, on_error)
    await settled()
    after = {"files": open_files(), "children": children(), "left": left()}
    return {"before": before, "after": after, "memory": memory}


# Requests, and by how much memory may grow from the second quarter of them to the last.
KINDS = {"inline": (inline, 10_000, 3 * MIB), "pool": (pooled, 1_000, 2 * MIB)}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_of_requests(kind: str) -> None:
    words = [sys.executable, "-m", "tests.worker.test_leaks", kind]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["after"] == found["before"]
    # That of the measuring itself.
    assert found["after"]["left"] == {"Task": 1}
    for name, sizes in found["memory"].items():
        assert sizes[-1] - sizes[0] <= KINDS[kind][2], f"{name}: {sizes}"


def main() -> None:
    """Print what was measured, as JSON."""
    logging.disable(logging.CRITICAL)
    run, count, _ = KINDS[sys.argv[1]]
    print(json.dumps(asyncio.run(run(count))))  # noqa: T201 - for the test that has started this


if __name__ == "__main__":
    main()
