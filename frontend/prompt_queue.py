"""Threads for rendering and tokenizing, so that a long prompt delays no stream.

One of them has an event loop, for other projects' asynchronous code.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, TypeVar

import msgspec

from ..base.errors import BackedgeError
from ..base.limits import (
    MAX_THREAD_RENDER_MS,
    MAX_WAITING_CHARACTERS,
    MAX_WAITING_RENDERS,
    TEMPLATE_S,
    WAITING_PER_THREAD,
)
from ..engines.dynamo.types import Context
from ..templates.rendering import SlowTemplateError, allowing
from .containment import contained
from .loop_thread import LoopThread

T = TypeVar("T")
R = TypeVar("R")


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


class ClientGoneError(BackedgeError):
    """The client disconnected, so the prompt was not made."""

    def __init__(self) -> None:
        super().__init__("the client disconnected before its prompt was built.")


class _Place(msgspec.Struct, eq=False):
    """The place of a request that waits or is served.

    characters: of its text. waiting: the future that its coroutine awaits.
    """

    characters: int
    context: Context | None
    waiting: asyncio.Future[Any] | None = None

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has disconnected."""
        return self.context is not None and self.context.is_stopped()


class PromptQueue:
    """A few threads, shared by all models of a frontend, with a bounded queue.

    loop: for asynchronous preprocessors; their requests count in the same queue.
    threads: None for one per core, less one core for the event loop.
    waiting: how many requests may wait for a thread; None for `WAITING_PER_THREAD`.

    The methods are for one event loop. `characters` is the length of a request's text;
    `context` tells whether its client is still connected: otherwise the request is not started,
    and gives up its place if another one needs it.
    """

    def __init__(self, threads: int | None = None, waiting: int | None = None) -> None:
        self._threads = threads or max(1, len(os.sched_getaffinity(0)) - 1)
        self._limit = self._threads * WAITING_PER_THREAD if waiting is None else waiting
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="backedge-prompts")
        self.loop = LoopThread("backedge-prompt-loop")
        self._places: set[_Place] = set()
        self._characters = 0
        self._seconds_each = 0.0

    async def run(
        self,
        function: Callable[[T], R],
        argument: T,
        *,
        characters: int = 0,
        context: Context | None = None,
    ) -> R:
        """Call `function(argument)` in one of the threads; return the result.

        Raises `BusyError` if too many requests wait, `ClientGoneError`, and `PreparationError`
        for an exception of `function` that is not the request's fault.
        """
        with self._take_place(characters, context) as place:

            def call() -> R:
                if place.is_abandoned:
                    raise ClientGoneError
                with contained():
                    return function(argument)

            return await self.compute(call, place)

    async def compute(self, call: Callable[[], R], place: _Place | None = None) -> R:
        """Call `call` in a thread; then in that of the chat template, if it has taken too long.

        place: that of the request. Raises as `call`, and `BusyError` if the template is slow and
        too many requests wait for it.
        """

        def compute() -> R:
            with allowing(MAX_THREAD_RENDER_MS):
                return call()

        result = asyncio.get_running_loop().run_in_executor(self._executor, compute)
        if place is not None:
            place.waiting = result
        try:
            return await result
        except SlowTemplateError as slow:
            waiting = slow.process.prepare(call)
        if waiting is None:
            raise BusyError(MAX_WAITING_RENDERS, TEMPLATE_S)
        result = asyncio.wrap_future(waiting)
        if place is not None:
            place.waiting = result
        return await result

    @asynccontextmanager
    async def enter(
        self,
        manager: AbstractAsyncContextManager[R],
        *,
        characters: int = 0,
        context: Context | None = None,
    ) -> AsyncIterator[R]:
        """Enter and exit `manager` in the event loop of the queue's own thread.

        Only entering counts as waiting. Raises as `run`.
        """
        async with AsyncExitStack() as stack:
            with self._take_place(characters, context):
                value = await stack.enter_async_context(self.loop.enter(manager))
            yield value

    @contextmanager
    def _take_place(self, characters: int, context: Context | None) -> Iterator[_Place]:
        """Count a request that waits or is served. Raises `BusyError` if too many wait."""
        if self._is_full(characters):
            self._evict_abandoned()
        if self._is_full(characters):
            waiting = len(self._places) - self._threads
            raise BusyError(waiting, max(1.0, waiting * self._seconds_each / self._threads))
        place = _Place(characters, context)
        self._places.add(place)
        self._characters += characters
        began = time.monotonic()
        try:
            yield place
        except asyncio.CancelledError:
            if place in self._places:
                raise
            raise ClientGoneError from None  # `_evict_abandoned` has cancelled its future
        finally:
            self._leave(place)
            # Smoothed. Under load it includes the wait, so clients return later.
            self._seconds_each += 0.1 * (time.monotonic() - began - self._seconds_each)

    def _is_full(self, characters: int) -> bool:
        """Whether a request of this length would be one too many; a single one never is."""
        if len(self._places) - self._threads >= self._limit:
            return True
        return bool(self._places) and self._characters + characters > MAX_WAITING_CHARACTERS

    def _evict_abandoned(self) -> None:
        for place in [place for place in self._places if place.is_abandoned]:
            self._leave(place)
            if place.waiting is not None:
                place.waiting.cancel()

    def _leave(self, place: _Place) -> None:
        if place in self._places:
            self._places.remove(place)
            self._characters -= place.characters
