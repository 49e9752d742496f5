"""The pool: the same text as inline, whatever its processes do."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from backedge.parsers.errors import ParserFailedError, SetupError
from backedge.postprocess import Chunk
from backedge.postprocess.aggregate import aggregate_deltas
from backedge.postprocess.chunk_scheduler import MERGE_DELAYS
from backedge.postprocess.messages import ChoiceDelta
from backedge.worker.pool import PoolSettings, PoolSupervisor

from tests.support import encode, params

WORDS = "one two three four five six seven eight nine ten"
PARTS = "tests.worker.pool.pool_parts:build"


def in_pool(test, processes=2, deadline_s=1.0, on_error="degrade", build=PARTS, **arguments):
    """Run `test(pool)` with a pool; return its result, the failures reported and what is left behind."""
    failures: list[ParserFailedError] = []

    async def run():
        settings = PoolSettings(
            processes=processes,
            build=build,
            arguments=arguments,
            parsers_name="misbehaving",
            delays=MERGE_DELAYS["balanced"],
            on_error=on_error,
            deadline_s=deadline_s,
        )
        pool = PoolSupervisor(settings, failures.append)
        folder = Path(pool._fork_server.folder)
        try:
            await pool.ready()
            return await asyncio.wait_for(test(pool), 60), folder
        finally:
            pool.close()

    result, folder = asyncio.run(run())
    assert not folder.exists()
    return result, failures


async def stream(pool, text, pause_s=0.0, **fields):
    """Send `text` as the engine would, a token at a time; return the choice as a whole, and its tokens."""
    request = params(**fields)
    wake = asyncio.Event()
    loop = asyncio.get_running_loop()
    work = pool.start(request, [], loop.time(), wake.set)
    deltas: list[ChoiceDelta] = []
    token_ids: list[int] = []
    try:
        for number, token_id in enumerate(ids := encode(text), 1):
            await work.room()
            work.add(
                Chunk(token_ids=[token_id], finish_reason="length" if number == len(ids) else None),
                loop.time(),
            )
            await asyncio.sleep(pause_s)
        while not deltas or deltas[-1].finish_reason is None:
            wake.clear()
            for taken in work.take(loop.time()):
                deltas += taken.deltas
                token_ids += taken.token_ids
            if not deltas or deltas[-1].finish_reason is None:
                await wake.wait()
    finally:
        work.close()
    assert token_ids == encode(text)
    return aggregate_deltas(deltas)


@pytest.mark.parametrize("streaming", [True, False])
def test_text_comes_through(streaming):
    async def test(pool):
        return await asyncio.gather(
            *(stream(pool, f"{number} {WORDS}", stream=streaming) for number in range(20))
        )

    wholes, failures = in_pool(test)
    assert [whole.delta.content for whole in wholes] == [
        f"{number} {WORDS}" for number in range(20)
    ]
    assert failures == []


def test_a_process_that_is_killed_costs_nobody_anything():
    async def test(pool):
        async def kill():
            await asyncio.sleep(0.1)
            for pid in (before := pool.pids):
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(1.0)
            assert len(pool.pids) == 2, "whole again within a second"
            assert set(pool.pids).isdisjoint(before)

        texts = (stream(pool, f"{number} {WORDS}", pause_s=0.01) for number in range(64))
        _, *wholes = await asyncio.gather(kill(), *texts)
        return [whole.delta.content for whole in wholes], pool.stats

    (texts, stats), failures = in_pool(test)
    assert texts == [f"{number} {WORDS}" for number in range(64)]
    assert (stats.deaths, stats.replays > 0) == (2, True)
    assert failures == []


def test_the_template_may_be_killed_too():
    async def test(pool):
        os.kill(pool._fork_server._process.pid, signal.SIGKILL)
        os.kill(pool.pids[0], signal.SIGKILL)
        return await stream(pool, WORDS, pause_s=0.01)

    whole, failures = in_pool(test, processes=1)
    assert (whole.delta.content, failures) == (WORDS, [])


@pytest.mark.parametrize("processes", [1, 2])
def test_a_parser_that_never_comes_back_costs_its_own_request_only(processes):
    async def test(pool):
        others = (stream(pool, f"{number} {WORDS}", pause_s=0.02) for number in range(8))
        looping, *wholes = await asyncio.gather(stream(pool, f"before LOOP {WORDS}"), *others)
        return looping, wholes, pool.stats

    (looping, wholes, stats), failures = in_pool(test, processes)
    assert looping.delta.content == f"before LOOP {WORDS}", "the raw text from there on"
    assert [whole.delta.content for whole in wholes] == [f"{number} {WORDS}" for number in range(8)]
    assert stats.kills == 1
    assert [failure.reason for failure in failures] == [
        "a step took longer than the deadline of 1 s"
    ]
    assert failures[0].position == len(encode("before LOOP")) - 1


def test_or_its_request_fails_if_so_chosen():
    async def test(pool):
        with pytest.raises(Exception, match="longer than the deadline"):
            await stream(pool, f"before LOOP {WORDS}")
        return await stream(pool, WORDS)

    whole, failures = in_pool(test, on_error="fail")
    assert (whole.delta.content, len(failures)) == (WORDS, 1)


@pytest.mark.parametrize(("crashes", "is_raw"), [(1, False), (100, True)])
def test_a_request_in_whose_midst_processes_die_is_degraded_the_second_time(
    tmp_path, monkeypatch, crashes, is_raw
):
    monkeypatch.setenv("CRASHES", str(crashes))

    async def test(pool):
        return await stream(pool, f"before CRASH {WORDS}"), pool.stats.deaths

    (whole, deaths), failures = in_pool(test, counter=str(tmp_path / "crashes"))
    assert whole.delta.content == f"before CRASH {WORDS}"
    assert (deaths, len(failures)) == ((2, 1) if is_raw else (1, 0))


def test_a_parser_that_raises_is_reported_once_although_its_process_dies():
    async def test(pool):
        whole = asyncio.ensure_future(stream(pool, f"before RAISE {WORDS}", pause_s=0.02))
        await asyncio.sleep(0.5)
        for pid in pool.pids:
            os.kill(pid, signal.SIGKILL)
        return await whole

    whole, failures = in_pool(test)
    assert whole.delta.content == f"before RAISE {WORDS}"
    assert [failure.reason for failure in failures] == ["KeyError: 'raised'"]


def test_what_was_generated_before_a_failure_is_sent():
    async def test(pool):
        wake = asyncio.Event()
        work = pool.start(params(), [], 0.0, wake.set)
        deltas: list[ChoiceDelta] = []
        for token_id in encode("some words before RAISE"):
            work.add(Chunk(token_ids=[token_id]), asyncio.get_running_loop().time())

        async def read():
            while True:
                await wake.wait()
                wake.clear()
                while taken := work.take(asyncio.get_running_loop().time()):
                    deltas.extend(delta for part in taken for delta in part.deltas)

        with pytest.raises(ParserFailedError):
            await read()
        work.close()
        return aggregate_deltas(deltas).delta.content

    assert in_pool(test, on_error="fail")[0].startswith("some words before ")


def test_a_long_step_gives_the_others_a_new_process():
    async def test(pool):
        others = (stream(pool, f"{number} {WORDS}", pause_s=0.02) for number in range(4))
        slow, *wholes = await asyncio.gather(stream(pool, f"SLOW {WORDS}"), *others)
        return [slow, *wholes], pool.stats, len(pool.pids)

    (wholes, stats, members), failures = in_pool(test, processes=1, deadline_s=2.0, slow_s=1.0)
    texts = [f"SLOW {WORDS}", *(f"{number} {WORDS}" for number in range(4))]
    assert [whole.delta.content for whole in wholes] == texts
    assert (stats.kills, stats.replays, members, failures) == (0, 4, 1, [])


def test_a_cancelled_request_leaves_nothing_behind():
    async def test(pool):
        task = asyncio.ensure_future(stream(pool, WORDS, pause_s=1.0))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        return pool.requests, pool.depth, [len(member.streams) for member in pool._processes]

    assert in_pool(test)[0] == (0, 0, [0, 0])


def test_a_slow_process_slows_only_its_own_requests():
    async def test(pool):
        work = pool.start(params(), [], 0.0, lambda: None)
        for token_id in encode("SLOW "):
            work.add(Chunk(token_ids=[token_id]), 0.0)
        for _ in range(300):
            work.add(Chunk(token_ids=encode("a")), 0.0)
        room = asyncio.ensure_future(work.room())
        await asyncio.sleep(0.2)
        waits = not room.done()
        whole = await stream(pool, WORDS)
        await room
        work.close()
        return waits, whole.delta.content

    assert in_pool(test, slow_s=0.4)[0] == (True, WORDS)


def test_a_pool_that_cannot_start_says_so():
    async def test(pool):
        return None

    with pytest.raises(SetupError, match="template process of --postprocess-workers ended"):
        in_pool(test, build="tests.worker.pool.pool_parts:broken")


MAIN = """
import asyncio, sys
sys.path[:0] = ["."]
from backedge.postprocess import Chunk
from backedge.postprocess.chunk_scheduler import MERGE_DELAYS
from backedge.worker.pool import PoolSupervisor, PoolSettings
from tests.support import encode, params

async def main():
    pool = PoolSupervisor(PoolSettings(processes=2, build="tests.worker.pool.pool_parts:build", arguments={}, parsers_name="x",
                             delays=MERGE_DELAYS["balanced"], deadline_s=60.0))
    await pool.ready()
    work = pool.start(params(), [], 0.0, lambda: None)
    for token_id in encode("LOOP"):
        work.add(Chunk(token_ids=[token_id]), 0.0)
    await asyncio.sleep(0.3)
    print(pool._fork_server.folder, pool._fork_server._process.pid, *pool.pids, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_nothing_outlives_the_main_process_although_a_parser_loops():
    main = subprocess.Popen([sys.executable, "-c", MAIN], stdout=subprocess.PIPE, text=True)
    assert main.stdout is not None
    folder, *pids = main.stdout.readline().split()
    main.kill()
    main.communicate()
    until = time.monotonic() + 10
    while time.monotonic() < until and (Path(folder).exists() or any(map(is_alive, pids))):
        time.sleep(0.05)
    assert not Path(folder).exists()
    assert [pid for pid in pids if is_alive(pid)] == []


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
