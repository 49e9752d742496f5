"""Long prompts wait their turn, and hold up nobody but each other."""

import asyncio
import threading

import pytest
from backedge.frontend.runtime.prompt_queue import BusyError, PromptQueue

from tests.frontend.runtime.managed import Managed


def test_the_event_loop_goes_on_meanwhile():
    async def run():
        prompt_queue, released = PromptQueue(threads=1), threading.Event()
        waiting = asyncio.create_task(prompt_queue.run(released.wait, 30.0))
        await asyncio.sleep(0)  # the loop runs while the thread waits
        released.set()
        return await waiting

    assert asyncio.run(run())


@pytest.mark.parametrize(("threads", "waiting"), [(1, 0), (1, 2), (2, 3)])
def test_more_than_the_queue_takes_are_refused_and_those_in_it_are_not(threads, waiting):
    async def run():
        prompt_queue, released = PromptQueue(threads, waiting), threading.Event()
        taken = [
            asyncio.create_task(prompt_queue.run(released.wait, 30.0))
            for _ in range(threads + waiting)
        ]
        await asyncio.sleep(0)
        with pytest.raises(BusyError) as refused:
            await prompt_queue.run(str, 1)
        released.set()
        assert all(await asyncio.gather(*taken))
        assert await prompt_queue.run(str, 1) == "1"
        return refused.value

    assert asyncio.run(run()).retry_after_s >= 1


def test_a_failure_is_its_requests_own():
    async def run():
        prompt_queue = PromptQueue(threads=1)
        with pytest.raises(ValueError, match="invalid literal"):
            await prompt_queue.run(int, "x")
        return await prompt_queue.run(int, "1")

    assert asyncio.run(run()) == 1


def test_what_is_asynchronous_runs_in_a_loop_of_its_own_from_beginning_to_end():
    managed = Managed()

    async def run():
        async with PromptQueue(threads=1).enter(managed) as value:
            assert not managed.left.is_set()
            return value

    assert asyncio.run(run()) == "entered"
    assert managed.left.wait(10)
    assert managed.threads == {"backedge-prompt-loop"}


def test_asynchronous_ones_wait_in_the_same_queue():
    async def run():
        prompt_queue, go_on = PromptQueue(threads=1, waiting=0), threading.Event()

        async def request():
            async with prompt_queue.enter(Managed(go_on=go_on)) as value:
                return value

        taken = asyncio.create_task(request())
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await request()
        go_on.set()
        assert await taken == "entered"
        # Whoever has entered waits no longer.
        async with prompt_queue.enter(Managed()), prompt_queue.enter(Managed()):
            pass

    asyncio.run(run())


def test_a_burst_of_short_prompts_is_served():
    async def run():
        prompt_queue = PromptQueue(threads=1)
        return await asyncio.gather(*(prompt_queue.run(str, number) for number in range(1000)))

    assert asyncio.run(run()) == list(map(str, range(1000)))
