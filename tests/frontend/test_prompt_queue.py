"""Long prompts wait their turn, and hold up nobody but each other."""

import asyncio
import threading

import pytest
from backedge.frontend import prompt_queue as prompt_queue_module
from backedge.frontend.containment import PreparationError
from backedge.frontend.http_errors import as_http_errors
from backedge.frontend.prompt_queue import BusyError, ClientGoneError, PromptQueue
from dynamo.llm.exceptions import Unknown

from tests.frontend.doubles import Context
from tests.frontend.managed import Managed


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


# What code of a model, a user or a library in Rust may raise, and no future or loop survives.
HARMFUL = [
    *(StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, KeyboardInterrupt),
    *(asyncio.CancelledError, RecursionError, MemoryError, KeyError, BaseException),
]


def raise_(kind):
    raise kind("x")


@pytest.mark.parametrize("kind", HARMFUL)
def test_whatever_is_raised_ends_its_request_and_gives_back_its_place(kind):
    async def run():
        queue = PromptQueue(threads=1, waiting=0)
        for _ in range(3):
            with pytest.raises(PreparationError, match=kind.__name__) as failed:
                await asyncio.wait_for(queue.run(raise_, kind), 30)
            assert isinstance(failed.value.__cause__, kind)
        return await queue.run(str, 1)

    assert asyncio.run(run()) == "1"
    with pytest.raises(Unknown), as_http_errors():
        raise PreparationError(kind("x"))


@pytest.mark.parametrize("kind", HARMFUL)
def test_asynchronous_ones_may_raise_it_as_well(kind):
    async def run():
        queue = PromptQueue(threads=1, waiting=0)
        for _ in range(3):
            with pytest.raises(PreparationError):
                async with asyncio.timeout(30), queue.enter(Managed(kind("x"))):
                    pass
        async with queue.enter(Managed()) as value:
            return value

    assert asyncio.run(run()) == "entered"


def test_what_nobody_waits_for_is_not_begun():
    async def run():
        queue, released = PromptQueue(threads=1), threading.Event()
        begun: list[int] = []
        first = asyncio.create_task(queue.run(released.wait, 30.0))
        context = Context()
        second = asyncio.create_task(queue.run(begun.append, 1, context=context))
        third = asyncio.create_task(queue.run(begun.append, 2))
        await asyncio.sleep(0)
        context.stop_generating()
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third
        released.set()
        assert await first
        with pytest.raises(ClientGoneError):
            await second
        await queue.run(begun.append, 3)
        return begun

    assert asyncio.run(run()) == [3]


def test_a_full_queue_drops_those_whose_clients_have_gone():
    async def run():
        queue, released = PromptQueue(threads=1, waiting=2), threading.Event()
        contexts = [Context() for _ in range(3)]
        taken = [
            asyncio.create_task(queue.run(released.wait, 30.0, context=context))
            for context in contexts
        ]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await queue.run(str, 1)
        contexts[1].stop_generating()
        fourth = asyncio.create_task(queue.run(str, 4))
        with pytest.raises(ClientGoneError):
            await taken[1]
        with pytest.raises(BusyError):
            await queue.run(str, 5)
        released.set()
        return await fourth, await taken[0], await taken[2]

    assert asyncio.run(run()) == ("4", True, True)


def test_the_text_that_waits_is_bounded(monkeypatch):
    monkeypatch.setattr(prompt_queue_module, "MAX_WAITING_CHARACTERS", 100)

    async def run():
        queue, released = PromptQueue(threads=1), threading.Event()
        first = asyncio.create_task(queue.run(released.wait, 30.0, characters=500))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await queue.run(str, 1, characters=1)
        released.set()
        assert await first, "a long one alone is served"
        return await queue.run(str, 2, characters=101)

    assert asyncio.run(run()) == "2"
