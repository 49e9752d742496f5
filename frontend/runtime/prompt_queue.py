"""Threads for rendering and tokenizing, so that a long prompt does not hold up any stream."""

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

# How long a thread keeps the interpreter while others wait. Python's default of 5 ms would be added
# to every delta that is sent while a prompt is rendered.
SWITCH_INTERVAL_S = 0.0005
# For each thread: 1 s of short prompts, or minutes of long ones, which no engine reads faster.
WAITING_PER_THREAD = 1024


class BusyError(BackedgeError):
    """More requests wait for their prompt than the frontend accepts.

    retry_after_s: when the client may try again.
    """

    def __init__(self, waiting: int, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(
            f"{waiting} requests wait for rendering and tokenization in this frontend; "
            f"try again after {retry_after_s:.0f} s, or add frontends."
        )


class PromptQueue:
    """A few threads, shared by all models of a frontend, and a bounded queue in front of them.

    loop: for preprocessors that are asynchronous; their requests count in the same queue.
    threads: None for one per core, less one core for the event loop.
    waiting: how many requests may wait for a thread; None for `WAITING_PER_THREAD`.
    """

    def __init__(self, threads: int | None = None, waiting: int | None = None) -> None:
        self._threads = threads or max(1, len(os.sched_getaffinity(0)) - 1)
        self._limit = self._threads * WAITING_PER_THREAD if waiting is None else waiting
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="backedge-prompts")
        self.loop = LoopThread("backedge-prompt-loop")
        self._unfinished = 0
        self._seconds_each = 0.0
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))

    async def run(self, function: Callable[[T], R], argument: T) -> R:
        """Return `function(argument)`, called in one of the threads.

        Raises `BusyError` where too many requests wait.
        """
        with self._count():
            return await asyncio.get_running_loop().run_in_executor(
                self._executor, function, argument
            )

    @asynccontextmanager
    async def enter(self, manager: AbstractAsyncContextManager[R]) -> AsyncIterator[R]:
        """Enter and exit `manager` in the event loop of the queue's own thread.

        Only entering it counts as waiting. Raises `BusyError` where too many requests wait.
        """
        async with AsyncExitStack() as stack:
            with self._count():
                value = await stack.enter_async_context(self.loop.enter(manager))
            yield value

    @contextmanager
    def _count(self) -> Iterator[None]:
        """Count a request that waits or is served. Raises `BusyError` if too many wait."""
        waiting = self._unfinished - self._threads
        if waiting >= self._limit:
            raise BusyError(waiting, max(1.0, waiting * self._seconds_each / self._threads))
        self._unfinished += 1
        began = time.monotonic()
        try:
            yield
        finally:
            self._unfinished -= 1
            # Smoothed. With many waiting it includes their wait, so clients come back later.
            self._seconds_each += 0.1 * (time.monotonic() - began - self._seconds_each)
