"""An event loop in a thread of its own.

For other projects' asynchronous code that computes for long between its awaits.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines in a thread that starts with the first of them and never ends.

    The thread has to stay, since what ran there may have kept the loop.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._started: asyncio.AbstractEventLoop | None = None

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._started is None:
            self._started = asyncio.new_event_loop()
            threading.Thread(target=self._started.run_forever, name=self._name, daemon=True).start()
        return self._started

    async def run(self, coroutine: Coroutine[object, None, T]) -> T:
        """Return what `coroutine` returns, run in the thread's loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop()))

    @asynccontextmanager
    async def enter(self, manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
        """Enter `manager` in the thread's loop, and exit it there without waiting for the exit."""
        value: Future[T] = Future()
        value.set_running_or_notify_cancel()
        holding = asyncio.run_coroutine_threadsafe(_stay_in(manager, value), self._loop())
        try:
            yield await asyncio.wrap_future(value)
        finally:
            holding.cancel()


async def _stay_in(manager: AbstractAsyncContextManager[T], value: Future[T]) -> None:
    """Enter `manager`, set `value`, and exit when the task is cancelled."""
    try:
        async with manager as entered:
            value.set_result(entered)
            await asyncio.get_running_loop().create_future()
    except BaseException as error:
        if value.done():
            raise
        value.set_exception(error)
