"""The supervisor: the same text as inline, whatever the pool's processes do."""

import asyncio
import os
import signal

import pytest
from backedge.base.errors import ParserFailedError
from backedge.base.limits import MAX_DEATHS
from backedge.postprocess import Chunk
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import ChoiceDelta
from backedge.worker.backend import NewRequest

from tests.support import encode, params
from tests.worker.pool.pools import WORDS, in_pool, kept_streams, stream


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
    assert (stats.deaths, stats.moved_requests > 0) == (2, True)
    assert failures == []


@pytest.mark.parametrize("processes", [1, 2])
def test_a_parser_that_never_comes_back_costs_its_own_request_only(processes):
    async def test(pool):
        others = (stream(pool, f"{number} {WORDS}", pause_s=0.02) for number in range(8))
        looping, *wholes = await asyncio.gather(stream(pool, f"before LOOP {WORDS}"), *others)
        return looping, wholes, pool.stats

    (looping, wholes, stats), failures = in_pool(test, processes, deadline_s=2.0)
    assert looping.delta.content == f"before LOOP {WORDS}", "the raw text from there on"
    assert [whole.delta.content for whole in wholes] == [f"{number} {WORDS}" for number in range(8)]
    assert stats.kills == 1
    assert [failure.reason for failure in failures] == [
        "a step took longer than the deadline of 2 s"
    ]
    assert failures[0].position == len(encode("before LOOP")) - 1


@pytest.mark.parametrize("streaming", [True, False])
def test_a_parser_that_is_late_again_reads_nothing_again(tmp_path, streaming):
    async def test(pool):
        late = stream(pool, f"before AGAIN LOOP {WORDS}", stream=streaming)
        return await late, pool.stats.kills

    counter = str(tmp_path / "starts")
    (whole, kills), failures = in_pool(test, 1, deadline_s=2.0, counter=counter)
    assert whole.delta.content == f"before AGAIN LOOP {WORDS}"
    assert kills == len(failures)
    assert kills in (2, 3)  # the third, if what the client had ended at AGAIN


def test_or_its_request_fails_if_so_chosen():
    async def test(pool):
        with pytest.raises(Exception, match="longer than the deadline"):
            await stream(pool, f"before LOOP {WORDS}")
        return await stream(pool, WORDS)

    whole, failures = in_pool(test, on_error="fail")
    assert (whole.delta.content, len(failures)) == (WORDS, 1)


@pytest.mark.parametrize(("crashes", "is_raw"), [(1, False), (100, True)])
def test_a_request_in_whose_steps_processes_die_is_degraded_the_third_time(
    tmp_path, monkeypatch, crashes, is_raw
):
    monkeypatch.setenv("CRASHES", str(crashes))

    async def test(pool):
        return await stream(pool, f"before CRASH {WORDS}"), pool.stats.deaths

    (whole, deaths), failures = in_pool(test, counter=str(tmp_path / "crashes"))
    assert whole.delta.content == f"before CRASH {WORDS}"
    assert (deaths, len(failures)) == ((MAX_DEATHS, 1) if is_raw else (1, 0))


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
        request = pool.start(NewRequest(params(), [], 0.0, wake.set))
        deltas: list[ChoiceDelta] = []
        for token_id in encode("some words before RAISE"):
            request.add(Chunk(token_ids=[token_id]), asyncio.get_running_loop().time())

        async def read():
            while True:
                await wake.wait()
                wake.clear()
                while scheduled := request.take(asyncio.get_running_loop().time()):
                    deltas.extend(delta for part in scheduled for delta in part.deltas)

        with pytest.raises(ParserFailedError):
            await read()
        request.close()
        return aggregate_deltas(deltas).delta.content

    assert in_pool(test, on_error="fail")[0].startswith("some words before ")


def test_a_long_step_gives_the_others_a_new_process():
    async def test(pool):
        others = (stream(pool, f"{number} {WORDS}", pause_s=0.02) for number in range(4))
        slow, *wholes = await asyncio.gather(stream(pool, f"SLOW {WORDS}"), *others)
        return [slow, *wholes], pool.stats, len(pool.pids)

    (wholes, stats, serving), failures = in_pool(test, processes=1, deadline_s=2.0, slow_s=1.0)
    texts = [f"SLOW {WORDS}", *(f"{number} {WORDS}" for number in range(4))]
    assert [whole.delta.content for whole in wholes] == texts
    assert (stats.kills, stats.moved_requests, serving, failures) == (0, 4, 1, [])


def test_a_cancelled_request_leaves_nothing_behind():
    async def test(pool):
        task = asyncio.ensure_future(stream(pool, WORDS, pause_s=1.0))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        del task
        return pool.requests, pool.depth, kept_streams()

    assert in_pool(test)[0] == (0, 0, 0)
