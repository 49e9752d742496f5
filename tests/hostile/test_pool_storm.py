"""Faults of the pool in any order: each stream is right, or fails with a typed error."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from typing import Any

import pytest
from backedge.base.errors import ParserFailedError
from backedge.worker.pool import fork_server, supervisor

from tests.hostile.campaign import WHOLE
from tests.worker.pool.pool_parts import (
    CRASH,
    CUT_CALL,
    EXIT,
    GREED,
    HALF,
    LATER,
    LOOP,
    MESSAGES,
    NONSENSE,
    RAISE,
)
from tests.worker.pool.pools import WORDS, fork_server_pid, in_pool, stream
from tests.worker.pool.test_faults import until

SEEDS = range(20) if WHOLE else range(2)
FAULTS = 20 if WHOLE else 8
HOSTILE = (CRASH, EXIT, GREED, HALF, LATER, LOOP, NONSENSE, RAISE)


def stop_process(pool: Any, chance: random.Random) -> None:
    signal_process(pool, chance, signal.SIGSTOP)


def kill_process(pool: Any, chance: random.Random) -> None:
    signal_process(pool, chance, signal.SIGKILL)


def signal_process(pool: Any, chance: random.Random, number: int) -> None:
    if pool.pids:
        os.kill(chance.choice(pool.pids), number)


def stop_fork_server(pool: Any, chance: random.Random) -> None:
    signal_fork_server(signal.SIGSTOP)


def kill_fork_server(pool: Any, chance: random.Random) -> None:
    signal_fork_server(signal.SIGKILL)


def signal_fork_server(number: int) -> None:
    if pid := fork_server_pid():
        os.kill(pid, number)


KINDS = (stop_process, kill_process, stop_fork_server, kill_fork_server)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has to wait in a test waits less."""
    monkeypatch.setenv("CRASHES", "1000")
    monkeypatch.setattr(supervisor, "POOL_ABSENT_S", 100)  # has a test of its own
    monkeypatch.setattr(supervisor, "PROCESS_START_S", 2)
    monkeypatch.setattr(supervisor, "MAX_DELAY_S", 0.2)
    monkeypatch.setattr(fork_server, "FORK_TIMEOUT_S", 1)
    monkeypatch.setattr(fork_server, "FORK_SERVER_START_S", 4)
    monkeypatch.setattr(fork_server, "FORK_SERVER_RESTART_S", 4)
    monkeypatch.setattr(fork_server, "MAX_RESTART_DELAY_S", 0.5)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm(seed: int, tmp_path: Any) -> None:
    chance = random.Random(seed)
    texts = [f"{number} {WORDS}" for number in range(10)]
    texts += [f"{number} before {word} {WORDS}" for number, word in enumerate(HOSTILE)]

    async def answer(pool: Any, text: str) -> str | None:
        try:
            whole = await stream(pool, text, pause_s=0.05)
        except ParserFailedError:
            return None
        return whole.delta.content or ""

    async def storm(pool: Any) -> None:
        for _ in range(FAULTS):
            await asyncio.sleep(chance.uniform(0.0, 0.3))
            chance.choice(KINDS)(pool, chance)

    async def test(pool: Any) -> tuple[list[str | None], int, str]:
        found, _ = await asyncio.gather(
            asyncio.gather(*(answer(pool, text) for text in texts)), storm(pool)
        )
        after = await stream(pool, WORDS)
        await until(lambda: len(pool.pids) == 2)
        return list(found), pool.requests, after.delta.content or ""

    (found, requests, after), failures = in_pool(
        test,
        deadline_s=0.4,
        memory_mb=256,
        counter=str(tmp_path / "crashes"),
        nonsense=seed % len(MESSAGES),
    )
    assert (requests, after) == (0, WORDS)
    for text, content in zip(texts, found, strict=True):
        # Deaths between steps may cost a request its parser, and with it the call.
        assert content in (text, text + CUT_CALL * (HALF in text), None)
    assert found.count(None) <= len(failures), "who fails is told of"
