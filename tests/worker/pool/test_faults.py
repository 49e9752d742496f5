"""Processes that are stopped, run out of memory, cannot be forked, or send nonsense."""

import asyncio
import contextlib
import os
import signal
import time

import pytest
from backedge.base.errors import ParserFailedError, PoolAbsentError, SetupError
from backedge.base.limits import MAX_DEATHS, MAX_LOGGED
from backedge.worker.pool import fork_server, supervisor

from tests.worker.pool import pool_parts
from tests.worker.pool.pools import WORDS, fork_server_pid, in_pool, stream

MODULE = "tests.worker.pool.pool_parts"


async def until(done, seconds=20.0):
    async with asyncio.timeout(seconds):
        while not done():  # noqa: ASYNC110 - nobody tells of a process that is there
            await asyncio.sleep(0.01)


async def beside(pool, test, count=6):
    """Return the texts of `count` streams that run beside `test`, and its result."""
    others = [stream(pool, f"{number} {WORDS}", pause_s=0.025) for number in range(count)]
    result, *wholes = await asyncio.gather(test, *others)
    assert [whole.delta.content for whole in wholes] == [
        f"{number} {WORDS}" for number in range(count)
    ]
    return result


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """What has to wait in a test waits less."""
    monkeypatch.setattr(supervisor, "PROCESS_START_S", 1)
    monkeypatch.setattr(supervisor, "MAX_DELAY_S", 0.2)
    monkeypatch.setattr(fork_server, "FORK_TIMEOUT_S", 1)


@pytest.mark.parametrize("word", [pool_parts.LOG, pool_parts.PRINT])
def test_a_parser_that_writes_to_the_log_without_end_is_bounded(word, capfd):
    async def test(pool):
        return (await stream(pool, f"before {word} {WORDS}")).delta.content

    whole, failures = in_pool(test, 1, deadline_s=0.5)
    assert (whole, len(failures)) == (f"before {word} {WORDS}", 1)
    written = len(capfd.readouterr().err)
    # The answer is tried again a few times, each time in another process.
    assert MAX_LOGGED / 2 < written < 4 * MAX_LOGGED


@pytest.mark.parametrize("processes", [1, 2])
def test_a_process_that_is_stopped_between_steps_is_replaced(processes):
    async def test(pool):
        async def stop():
            await asyncio.sleep(0.1)
            os.kill(pool.pids[0], signal.SIGSTOP)

        stopped = pool.pids[0]
        await beside(pool, stop())
        await until(lambda: len(pool.pids) == processes)
        return pool.stats, stopped in pool.pids

    (stats, is_there), failures = in_pool(test, processes, deadline_s=2.0)
    assert (stats.kills, is_there, failures) == (1, False, [])


def test_one_that_is_stopped_in_a_step_costs_its_request_no_parser(tmp_path):
    async def test(pool):
        answer = await stream(pool, f"before STOP {WORDS}")
        return answer.delta.content, pool.stats.kills

    # Without a look at the process's state its parser is blamed when the deadline is over.
    found = in_pool(test, 1, deadline_s=2.0, counter=str(tmp_path / "stops"))
    assert found == ((f"before STOP {WORDS}", 1), [])


def test_one_that_is_stopped_while_idle_costs_the_next_request_nothing():
    async def test(pool):
        os.kill(pool.pids[0], signal.SIGSTOP)
        await asyncio.sleep(0.2)
        return (await stream(pool, WORDS)).delta.content

    assert in_pool(test, 1, deadline_s=0.4) == (WORDS, [])


def test_a_main_process_that_was_stopped_blames_nobody():
    async def test(pool):
        async def sleep():
            await asyncio.sleep(0.1)
            for pid in pool.pids:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(2.0)  # noqa: ASYNC251 - nothing may run here, either
            for pid in pool.pids:
                os.kill(pid, signal.SIGCONT)

        await beside(pool, sleep())
        return pool.stats

    stats, failures = in_pool(test, deadline_s=0.4)
    assert (stats.kills, stats.deaths, failures) == (0, 0, [])


def test_a_fork_server_that_is_stopped_is_replaced():
    async def test(pool):
        async def stop():
            os.kill(fork_server_pid(), signal.SIGSTOP)
            os.kill(pool.pids[0], signal.SIGKILL)
            await until(lambda: len(pool.pids) == 2)

        await beside(pool, stop())
        return pool.stats.deaths

    assert in_pool(test) == (1, [])


def test_a_stopped_fork_server_costs_nothing_while_a_process_serves(monkeypatch):
    monkeypatch.setattr(fork_server, "FORK_TIMEOUT_S", 60)

    async def test(pool):
        server = fork_server_pid()
        os.kill(server, signal.SIGSTOP)
        os.kill(pool.pids[0], signal.SIGKILL)
        await until(lambda: len(pool.pids) == 1)
        answers = await asyncio.gather(*(stream(pool, WORDS) for _ in range(4)))
        os.kill(server, signal.SIGCONT)
        return {answer.delta.content for answer in answers}

    assert in_pool(test) == ({WORDS}, [])


def test_a_fork_server_that_never_builds_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(fork_server, "FORK_SERVER_START_S", 1)

    async def test(pool):
        raise AssertionError

    build = {"build": f"{MODULE}:build_slowly", "started": str(tmp_path / "x"), "seconds": 600}
    with pytest.raises(SetupError, match="fork server of --postprocess-workers ended"):
        in_pool(test, **build)


def test_requests_go_to_other_workers_while_no_process_can_be_started(monkeypatch, caplog):
    """The next fork server hangs while it starts; the third one works."""
    monkeypatch.setattr(supervisor, "POOL_ABSENT_S", 0.5)
    monkeypatch.setattr(fork_server, "FORK_SERVER_RESTART_S", 4)

    async def test(pool):
        request = asyncio.create_task(stream(pool, WORDS, pause_s=0.3))
        await asyncio.sleep(0.1)
        server = fork_server_pid()
        for pid in (server, *pool.pids):
            os.kill(pid, signal.SIGKILL)
        await until(lambda: fork_server_pid() not in (0, server))
        os.kill(fork_server_pid(), signal.SIGSTOP)
        with pytest.raises(PoolAbsentError, match="has served for"):
            await request
        await until(lambda: told == [True, False, True])
        return (await stream(pool, WORDS)).delta.content

    told: list[bool] = []
    assert in_pool(test, on_presence=told.append) == (WORDS, [])
    assert sum("go to other workers" in told for told in caplog.messages) == 1


def test_an_idle_pool_without_processes_says_so(monkeypatch):
    monkeypatch.setattr(supervisor, "POOL_ABSENT_S", 0.5)
    told: list[bool] = []

    async def test(pool):
        server = fork_server_pid()
        os.kill(server, signal.SIGSTOP)
        for pid in pool.pids:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: len(told) == 2)
        os.kill(server, signal.SIGCONT)
        await until(lambda: len(told) == 3)

    in_pool(test, on_presence=told.append)
    assert told == [True, False, True]


def test_processes_that_die_before_they_serve_stop_the_start():
    async def test(pool):
        raise AssertionError

    with pytest.raises(SetupError, match="processes of --postprocess-workers ended before"):
        in_pool(test, build=f"{MODULE}:build_to_die")


def test_a_process_that_hangs_before_it_serves_is_replaced(tmp_path):
    async def test(pool):
        return (await stream(pool, WORDS)).delta.content, pool.stats.kills

    found, failures = in_pool(
        test, build=f"{MODULE}:build_to_hang", marker=str(tmp_path / "x"), deadline_s=0.4
    )
    assert (found, failures) == ((WORDS, 1), [])


def test_a_machine_without_room_for_a_process_is_asked_again(caplog):
    async def test(pool):
        victim = pool.pids[0]
        os.kill(victim, signal.SIGKILL)
        await until(lambda: victim not in pool.pids and len(pool.pids) == 2)

    in_pool(test, build=f"{MODULE}:build_without_room", forks=2)
    refused = [told for told in caplog.messages if "cannot be forked" in told]
    assert len(refused) == 2


@pytest.mark.parametrize("number", range(len(pool_parts.MESSAGES)))
def test_a_process_that_sends_nonsense_is_replaced(number, tmp_path):
    text = f"before {pool_parts.NONSENSE} {WORDS}"

    async def test(pool):
        whole = await beside(pool, stream(pool, text, pause_s=0.02))
        return whole.delta.content, pool.stats.deaths

    found, failures = in_pool(test, nonsense=number, counter=str(tmp_path / "sent"))
    assert (found, failures) == ((text, 1), [])


@pytest.mark.parametrize("on_error", ["degrade", "fail"])
@pytest.mark.parametrize("text", [pool_parts.GREED, pool_parts.EXIT])
def test_a_parser_that_wants_all_memory_or_to_exit_costs_its_own_request(text, on_error):
    async def test(pool):
        hostile = stream(pool, f"before {text} {WORDS}")
        if on_error == "fail":
            hostile = raises(hostile)
        return await beside(pool, hostile), pool.stats.deaths

    (whole, deaths), failures = in_pool(test, on_error=on_error, memory_mb=256, deadline_s=20.0)
    assert deaths == 0
    assert [failure.reason.partition(":")[0] for failure in failures] == [
        {"GREED": "MemoryError", "EXIT": "SystemExit"}[text]
    ]
    if on_error == "degrade":
        assert whole.delta.content == f"before {text} {WORDS}"


async def raises(request):
    with pytest.raises(ParserFailedError):
        await request


def test_half_a_character_in_a_call_costs_nobody_anything():
    async def test(pool):
        whole = await beside(pool, stream(pool, f"before HALF {WORDS}"))
        return whole, pool.stats.deaths

    (whole, deaths), failures = in_pool(test)
    assert (deaths, failures) == (0, [])
    assert whole.delta.content == f"before HALF {WORDS}{pool_parts.CUT_CALL}"


def test_processes_that_die_outside_of_steps_blame_what_they_had_in_hand():
    """Every process that gets the request dies a moment later, so no process gets it for ever."""
    text = f"before LATER {WORDS} {WORDS} {WORDS}"

    async def test(pool):
        await raises(stream(pool, text, pause_s=0.02))
        return pool.stats.deaths, (await stream(pool, WORDS)).delta.content

    (deaths, after), failures = in_pool(test, 1, on_error="fail")
    assert deaths == MAX_DEATHS
    assert [failure.reason for failure in failures] == ["3 of its processes died"]
    assert after == WORDS


def test_a_parser_that_ends_its_processes_outside_of_steps_is_left_in_the_end():
    """Left where the request is or where the client is, it has already been fed; at last never."""
    text = f"before LATER {WORDS} {WORDS} {WORDS}"

    async def test(pool):
        return await stream(pool, text, pause_s=0.02), pool.stats.deaths

    (whole, deaths), failures = in_pool(test, 1)
    assert whole.delta.content == text
    assert deaths == MAX_DEATHS * len(failures)
    assert len(failures) in (2, 3)
    assert {failure.reason for failure in failures} == {"3 of its processes died"}


def test_a_request_that_kills_without_its_parser_as_well_fails():
    async def kill_all(pool):
        while pool.requests:
            for pid in pool.pids:
                # One of them may have ended, and the pool not know it yet.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.02)

    async def test(pool):
        await asyncio.gather(raises(stream(pool, WORDS, pause_s=0.2)), kill_all(pool))
        return pool.stats.deaths, (await stream(pool, WORDS)).delta.content

    (deaths, after), failures = in_pool(test, 1)
    assert (len(failures) in (2, 3), after) == (True, WORDS)
    assert deaths >= len(failures) * MAX_DEATHS


def test_an_answer_that_cannot_be_sent_fails_its_request_only(monkeypatch):
    """The mender of text is not asked: something else may be wrong with an answer one day."""

    async def test(pool):
        return await beside(pool, raises(stream(pool, f"before HALF {WORDS}"))), pool.stats.deaths

    (_, deaths), failures = in_pool(test, build=f"{MODULE}:build_unmended")
    assert deaths == 0
    assert [failure.reason for failure in failures] == [
        "its answer cannot be sent: UnicodeEncodeError"
    ]
