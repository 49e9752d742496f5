"""How long a frontend waits for the turns of other frontends, in a real server and without one.

A look-up asks for 20 answers. The server answers, holds garbage in place of all values, is killed
or is stopped; each also beside a thread that keeps the interpreter busy. A server that has failed
is asked again at once here; a frontend leaves it alone for a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from backedge.frontend.turns import shared_turns
from backedge.frontend.turns.shared_turns import SharedTurns, seal, unseal
from backedge.frontend.turns.turn_store import Turn

from tests.frontend.turns.store_server import Server
from tools.stack import LOOPBACK

ANSWERS = 20
KEYS = [bytes([number]) * 32 for number in range(ANSWERS)]
TURN = Turn("First I compare what I know of it. " * 40, 1_000, bytes(32), os.urandom(2_000))
MS_PER_S = 1e3
FAULTS: dict[str, Callable[[Server], object]] = {
    "answers": lambda _: None,
    "holds garbage": lambda server: server.rewrite(lambda _: os.urandom(500)),
    "was stopped": Server.stop,
    "was killed": Server.kill,
}


class StoreRow(msgspec.Struct):
    """The look-ups of one state of the server, in milliseconds. found: answers of each look-up."""

    state: str
    busy: bool
    median_ms: float
    longest_ms: float
    found: int
    rounds: int


@contextlib.contextmanager
def busy_thread(*, busy: bool) -> Iterator[None]:
    """Keep the interpreter busy while the context lasts, if asked to."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            sum(range(1_000))

    thread = threading.Thread(target=work)
    if busy:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if busy:
            thread.join()


async def look_up(server: Server, rounds: int) -> tuple[list[float], int]:
    """Return the times of look-ups in milliseconds, and how many answers the last one found."""
    shared = SharedTurns(f"redis://{LOOPBACK}:{server.port}/0", 60)
    times, found = [], 0
    for _ in range(rounds):
        await asyncio.sleep(0.01)
        began = time.perf_counter()
        fetched = await shared.fetch(KEYS)
        times.append((time.perf_counter() - began) * MS_PER_S)
        found = sum(unseal(key, value) is not None for key, value in fetched.items())
    await shared.close()
    return times, found


def write_answers(server: Server) -> None:
    """Write all answers to the server."""
    for key in KEYS:
        server.client.set(shared_turns.name_in_store(key), seal(key, TURN))


def measure_store(rounds: int) -> list[StoreRow]:
    """Return a row for each state of the server."""
    rows = []
    pause, shared_turns.PAUSE_S = shared_turns.PAUSE_S, 0.0
    try:
        for state, break_server in FAULTS.items():
            for busy in (False, True):
                with tempfile.TemporaryDirectory() as folder, Server(Path(folder)) as server:
                    write_answers(server)
                    break_server(server)
                    with busy_thread(busy=busy):
                        times, found = asyncio.run(look_up(server, rounds))
                rows.append(summarize(state, times, found, busy=busy))
    finally:
        shared_turns.PAUSE_S = pause
    return rows


def summarize(state: str, times: Sequence[float], found: int, *, busy: bool) -> StoreRow:
    """Return the row of a state. The first look-up, which connects, counts as well."""
    return StoreRow(state, busy, statistics.median(times), max(times), found, len(times))
