"""Asynchronous code in a loop of its own thread: its results, its errors, and its end."""

import asyncio
import threading

import pytest
from backedge.frontend.containment import PreparationError
from backedge.frontend.loop_thread import LoopThread

from tests.frontend.managed import Managed


def test_a_coroutine_runs_in_the_thread_and_returns_here():
    async def name():
        return threading.current_thread().name

    async def fail():
        raise ValueError("no such part")

    async def run():
        loop_thread = LoopThread("tests-loop")
        with pytest.raises(ValueError, match="no such part"):
            await loop_thread.run(fail())
        return await loop_thread.run(name())

    assert asyncio.run(run()) == "tests-loop"


def test_what_cannot_be_entered_says_why():
    async def run():
        loop_thread = LoopThread("tests-loop")
        with pytest.raises(ValueError, match="no such part"):
            async with loop_thread.enter(Managed(ValueError("no such part"))):
                pass
        async with loop_thread.enter(Managed()) as value:
            return value

    assert asyncio.run(run()) == "entered"


def test_an_error_of_the_one_who_entered_is_his_and_leaves():
    managed = Managed()

    async def run():
        async with LoopThread("tests-loop").enter(managed):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(run())
    assert managed.left.wait(10)


@pytest.mark.parametrize("entered_first", [True, False])
def test_a_request_that_is_cancelled_is_left(entered_first):
    go_on = threading.Event()
    managed = Managed(go_on=None if entered_first else go_on)

    async def run():
        inside = asyncio.Event()

        async def request(loop_thread):
            async with loop_thread.enter(managed):
                inside.set()
                await asyncio.sleep(30)

        task = asyncio.create_task(request(LoopThread("tests-loop")))
        if entered_first:
            await inside.wait()
        else:
            await asyncio.to_thread(managed.entered.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    go_on.set()
    if entered_first:
        assert managed.left.wait(10)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_the_thread_outlives_what_ends_other_loops(kind):
    async def fail():
        raise kind("x")

    async def spawn():
        asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(0.01)
        return "spawned"

    async def run():
        loop_thread = LoopThread("tests-loop")
        with pytest.raises(PreparationError, match=kind.__name__):
            await asyncio.wait_for(loop_thread.run(fail()), 30)
        return await asyncio.wait_for(loop_thread.run(spawn()), 30)

    assert asyncio.run(run()) == "spawned"
