"""Threads for rendering and tokenizing, so that a long prompt delays no stream.

One of them has an event loop, for other projects' asynchronous code that computes for a long time
between awaits.

Chat templates, tokenizers and engines may raise anything; what leaves a thread is an exception that
an event loop survives. A future cannot hold StopIteration, so awaiting it never ends; SystemExit
and KeyboardInterrupt end the loop that awaits them; a library in Rust that panics raises a
BaseException as well.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, TypeVar

import msgspec
import uvloop
from dynamo.llm.exceptions import DynamoException, HttpError

from ..base.errors import BackedgeError, shorten
from ..base.limits import (
    MAX_THREAD_RENDER_MS,
    MAX_WAITING_CHARACTERS,
    MAX_WAITING_RENDERS,
    TEMPLATE_S,
    WAITING_PER_THREAD,
)
from ..base.log import get_logger
from ..engines.dynamo.types import Context
from ..templates.rendering import SlowTemplateError, allowing

# The errors that `as_http_errors` translates; vLLM and pydantic check requests with ValueError.
EXPECTED = (BackedgeError, DynamoException, HttpError, ValueError)


class PreparationError(BackedgeError):
    """Rendering or tokenization failed, not because of the request. HTTP 500."""

    def __init__(self, cause: BaseException) -> None:
        described = f"{type(cause).__name__}: {shorten(str(cause))}".removesuffix(": ")
        super().__init__(f"the request could not be prepared ({described}).")
        self.__cause__ = cause


@contextmanager
def contained(*expected: type[BaseException]) -> Iterator[None]:
    """Raise `PreparationError` for an exception that is no request's fault and not `expected`."""
    try:
        yield
    except (*EXPECTED, SlowTemplateError, *expected):
        raise
    except BaseException as error:
        raise PreparationError(error) from error


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


R = TypeVar("R")

# How long a thread keeps the interpreter while others wait. Python's default of 5 ms would be added
# to every delta that is sent while a prompt is rendered.
SWITCH_INTERVAL_S = 0.0005


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
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))

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
