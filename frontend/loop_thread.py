"""A thread with an event loop, for other projects' coroutines that compute long between awaits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import uvloop

from ..base.log import get_logger
from .containment import EXPECTED, PreparationError, contained

logger = get_logger(__name__)

T = TypeVar("T")


class LoopThread:
    """Runs coroutines in a thread that starts with the first one and never ends.

    The thread must stay, since code that ran in it may have kept the loop.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._started: asyncio.AbstractEventLoop | None = None

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._started is None:
            self._started = uvloop.new_event_loop()
            threading.Thread(
                target=_run_forever, args=(self._started,), name=self._name, daemon=True
            ).start()
        return self._started

    async def run(self, coroutine: Coroutine[object, None, T]) -> T:
        """Run `coroutine` in the thread's loop; return its result.

        Raises `PreparationError` for an exception that would end an event loop.
        """
        running = asyncio.run_coroutine_threadsafe(_raise_exceptions_only(coroutine), self._loop())
        return await asyncio.wrap_future(running)

    @asynccontextmanager
    async def enter(self, manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
        """Enter `manager` in the thread's loop, and exit it there without waiting for the exit.

        Raises what entering it raises, or `PreparationError` if that is not a request's fault.
        """
        value: Future[T] = Future()
        value.set_running_or_notify_cancel()
        holding = asyncio.run_coroutine_threadsafe(_stay_in(manager, value), self._loop())
        try:
            yield await asyncio.wrap_future(value)
        finally:
            holding.cancel()


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    while not loop.is_closed():
        try:
            loop.run_forever()
        except BaseException:
            # A task of another project's code has raised SystemExit or similar.
            logger.exception("an event loop goes on after an exception that would have ended it")


async def _raise_exceptions_only(coroutine: Coroutine[object, None, T]) -> T:
    with contained(Exception):
        return await coroutine


async def _stay_in(manager: AbstractAsyncContextManager[T], value: Future[T]) -> None:
    """Enter `manager`, set `value`, and exit when the task is cancelled."""
    try:
        async with manager as entered:
            value.set_result(entered)
            await asyncio.get_running_loop().create_future()
    except BaseException as error:
        if not value.done():
            expected = isinstance(error, EXPECTED)
            value.set_exception(error if expected else PreparationError(error))
        elif not isinstance(error, asyncio.CancelledError):
            logger.exception("a request was not left cleanly")
