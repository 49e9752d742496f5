"""Long prompts wait their turn, and hold up nobody but each other."""

import asyncio
import threading

import pytest
from backedge.frontend.offload import BusyError, Offload
from backedge.frontend.refusals import refusing
from backedge.frontend.tokenizers import TokenizerLoadError
from dynamo.llm.exceptions import WorkerUnavailable


def test_the_event_loop_goes_on_meanwhile():
    async def run():
        offload, released = Offload(threads=1), threading.Event()
        waiting = asyncio.create_task(offload.run(released.wait, 30.0))
        await asyncio.sleep(0)  # the loop runs while the thread waits
        released.set()
        return await waiting

    assert asyncio.run(run())


@pytest.mark.parametrize(("threads", "waiting"), [(1, 0), (1, 2), (2, 3)])
def test_more_than_the_queue_takes_are_refused_and_those_in_it_are_not(threads, waiting):
    async def run():
        offload, released = Offload(threads, waiting), threading.Event()
        taken = [asyncio.create_task(offload.run(released.wait, 30.0)) for _ in range(threads + waiting)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError) as refused:
            await offload.run(str, 1)
        released.set()
        assert all(await asyncio.gather(*taken))
        assert await offload.run(str, 1) == "1"
        return refused.value

    assert asyncio.run(run()).retry_after_s >= 1


def test_a_failure_is_its_requests_own():
    async def run():
        offload = Offload(threads=1)
        with pytest.raises(ValueError, match="invalid literal"):
            await offload.run(int, "x")
        return await offload.run(int, "1")

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize("error", [BusyError(3, 2.0), TokenizerLoadError("m:C", "/model", "imported", "no module")])
def test_what_is_our_fault_is_503_and_logged(error, caplog):
    with pytest.raises(WorkerUnavailable), refusing():
        raise error
    assert str(error) in caplog.text
