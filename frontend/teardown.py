"""Frees a model's resources when Dynamo drops its engine, after the model's last instance.

Dynamo drops an engine in a Rust thread without the interpreter's lock. Its binding (PyO3) then only
queues the reference, and releases it when Python next calls the binding: with the next request or
model, which may never come. So we call it several times a second while there is a model: Dynamo 1.6
has no event for a model or an instance that has gone, on which we could wait instead.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from dynamo.llm import ModelRuntimeConfig

from ..base.log import get_logger

logger = get_logger(__name__)

POLL_S = 0.25
# By then all others have dropped the model, too.
COLLECT_AFTER_S = 0.5
CLOSING_METHODS = ("aclose", "close", "shutdown")

End = Callable[[], Awaitable[None]]


class Teardown:
    """Watches the engines of a frontend's models. The methods are for one event loop."""

    def __init__(self) -> None:
        self._watched = 0
        self._polling: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def watch(self, engine: Callable[..., object], end: End | None = None) -> None:
        """Await `end` once after `engine` is gone, then collect garbage.

        engine: passed to Dynamo and kept nowhere else. end: must not refer to it.
        """
        loop = asyncio.get_running_loop()

        def begin_soon() -> None:
            with suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(self._begin, end)

        weakref.finalize(engine, begin_soon).atexit = False
        self._watched += 1
        if self._polling is None:
            self._polling = loop.create_task(self._poll())

    async def _poll(self) -> None:
        while self._watched:
            await asyncio.sleep(POLL_S)
            ModelRuntimeConfig()  # any call into the binding
        self._polling = None

    def _begin(self, end: End | None) -> None:
        self._watched -= 1
        task = asyncio.get_running_loop().create_task(_end_and_collect(end))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _end_and_collect(end: End | None) -> None:
    if end is not None:
        try:
            await end()
        except Exception:
            logger.exception("the engine of a removed model could not be closed")
    del end
    # The engines' objects, including tokenizers, are parts of reference cycles; without this
    # they would stay until much more garbage has accumulated.
    await asyncio.sleep(COLLECT_AFTER_S)
    gc.collect()


class RunningRequests:
    """Counts the requests that an engine answers."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count a request."""
        self._count += 1
        self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def wait_for_none(self) -> None:
        """Return when no request is left."""
        await self._none.wait()


def find_closing(engine: object) -> Callable[[], object] | None:
    """Return the method that closes an engine of the user's, if it has one."""
    for name in CLOSING_METHODS:
        method: object = getattr(engine, name, None)
        if callable(method):
            return method
    return None


async def close_when_idle(close: Callable[[], object], running: RunningRequests) -> None:
    """Call `close` after the last request is answered, and await its result if it is awaitable."""
    await running.wait_for_none()
    result = close()
    if inspect.isawaitable(result):
        await result
