"""What is done when Dynamo drops the engine of a model."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from backedge.frontend import teardown
from backedge.frontend.teardown import (
    CLOSING_METHODS,
    RunningRequests,
    Teardown,
    close_when_idle,
    find_closing,
)


class Knot:
    """Refers to itself, so only the garbage collector takes it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teardown, "COLLECT_AFTER_S", 0.01)
    monkeypatch.setattr(teardown, "POLL_S", 0.01)


async def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("nothing happens")


def make_engine(held: object) -> Any:
    """Return what Dynamo gets; it holds an object."""

    def engine() -> object:
        return held

    return engine


def test_what_an_engine_held_is_collected() -> None:
    async def run() -> None:
        gone = asyncio.Event()
        knot = Knot()
        weakref.finalize(knot, gone.set)
        engine = make_engine(knot)
        Teardown().watch(engine)
        gc.disable()  # nobody else may take it
        try:
            del knot, engine
            assert not gone.is_set()
            await asyncio.wait_for(gone.wait(), 10)
        finally:
            gc.enable()

    asyncio.run(run())


def test_the_end_is_awaited_once_though_it_raises(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> int:
        ended = 0

        async def end() -> None:
            nonlocal ended
            await asyncio.sleep(0)
            ended += 1
            raise OSError("out of luck")

        watching = Teardown()
        engine = make_engine(None)
        watching.watch(engine, end)
        await asyncio.sleep(0.05)
        assert not ended
        del engine
        await wait_for(lambda: not watching._polling and not watching._ending)
        return ended

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(run()) == 1
    assert "out of luck" in caplog.text


def test_the_binding_is_called_while_there_is_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    monkeypatch.setattr(teardown, "ModelRuntimeConfig", lambda: calls.append(None))

    async def run() -> None:
        watching = Teardown()
        engine = make_engine(None)
        watching.watch(engine)
        await wait_for(lambda: len(calls) > 3)
        del engine
        await wait_for(lambda: not watching._polling)
        watching.watch(again := make_engine(None))
        assert again() is None
        assert watching._polling, "and for the next model"

    asyncio.run(run())


@pytest.mark.parametrize("first", range(len(CLOSING_METHODS)))
def test_the_first_of_the_closing_methods_is_taken(first: int) -> None:
    class Engine:
        pass

    for name in CLOSING_METHODS[first:]:
        setattr(Engine, name, lambda self, name=name: name)
    close = find_closing(Engine())
    assert close is not None
    assert close() == CLOSING_METHODS[first]
    assert find_closing(object()) is None


@pytest.mark.parametrize("is_async", [True, False])
def test_an_engine_is_closed_after_its_last_request(is_async: bool) -> None:
    async def run() -> list[str]:
        seen: list[str] = []
        running = RunningRequests()

        async def aclose() -> None:
            await asyncio.sleep(0)
            seen.append("closed")

        with running.one_more():
            with running.one_more():
                close = aclose if is_async else lambda: seen.append("closed")
                closing = asyncio.ensure_future(close_when_idle(close, running))
            await asyncio.sleep(0.02)
            seen.append("last request")
        await closing
        return seen

    assert asyncio.run(run()) == ["last request", "closed"]
