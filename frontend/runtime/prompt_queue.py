"""Threads for rendering and tokenizing, so that a long prompt holds up no stream."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import TypeVar

from ...parsers.errors import BackedgeError
from .loop_thread import LoopThread

T = TypeVar("T")
R = TypeVar("R")

# A thread that runs Python keeps the interpreter for so long at a time; the default of
# 5 ms would be added to every delta that is sent meanwhile.
SWITCH_INTERVAL_S = 0.0005
# Of each thread: 1 s of short prompts, minutes of long ones, which no engine reads faster.
WAITING_PER_THREAD = 1024


class BusyError(BackedgeError):
    """More requests wait for their prompt than the frontend takes. retry_after_s: when to come again."""

    def __init__(self, waiting: int, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(
            f"{waiting} requests wait for rendering and tokenization in this frontend; "
            f"try again after {retry_after_s:.0f} s, or add frontends."
        )


class PromptQueue:
    """A few threads, shared by all models of a frontend, and a queue in front of them that is never long.

    loop: for forward edges that are asynchronous, whose requests wait in the same queue.
    threads: None for one per core but one, which the event loop has.
    waiting: how many requests may wait for a thread.
    """

    def __init__(self, threads: int | None = None, waiting: int | None = None) -> None:
        self._threads = threads or max(1, len(os.sched_getaffinity(0)) - 1)
        self._limit = self._threads * WAITING_PER_THREAD if waiting is None else waiting
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="backedge-prompts")
        self.loop = LoopThread("backedge-prompt-loop")
        self._unfinished = 0
        self._seconds = 0.0
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))

    async def run(self, function: Callable[[T], R], argument: T) -> R:
        """Return `function(argument)`, called in one of the threads. Raises `BusyError` where too many wait."""
        with self._place():
            return await asyncio.get_running_loop().run_in_executor(
                self._executor, function, argument
            )

    @asynccontextmanager
    async def entered(self, manager: AbstractAsyncContextManager[R]) -> AsyncIterator[R]:
        """Enter and leave `manager` in an event loop of its own thread. Raises `BusyError` where too many wait."""
        async with AsyncExitStack() as stack:
            with self._place():
                value = await stack.enter_async_context(self.loop.entered(manager))
            yield value

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Be one of those that wait or are served."""
        waiting = self._unfinished - self._threads
        if waiting >= self._limit:
            raise BusyError(waiting, max(1.0, waiting * self._seconds / self._threads))
        self._unfinished += 1
        began = time.monotonic()
        try:
            yield
        finally:
            self._unfinished -= 1
            # How long one takes, smoothed; with many waiting that is longer, which suits its use.
            self._seconds += 0.1 * (time.monotonic() - began - self._seconds)
