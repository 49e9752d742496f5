"""Sends chunks through Dynamo's `ResponseSender` without blocking the event loop.

Dynamo either pulls chunks from a handler's async generator or, if the handler has a parameter
`response_sender`, passes it a sender. A pulled chunk costs the worker some 35 us, a sent one some
3. But `send` blocks while the frontend lags, for example because a client does not read; in the
event loop it would delay all requests of the worker. So the event loop sends only as many chunks
as Dynamo buffers for a frontend that does not read, and a thread sends the rest of a longer
response. docs/decisions/0017-push-egress.md has the measurements.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, closing, suppress
from math import inf
from typing import Protocol

from typing_extensions import override

from ..base.errors import BackedgeError
from ..base.json_types import JsonObject
from ..base.limits import DIRECT_CHUNKS, STUCK_MS
from ..engines.dynamo.types import ResponseSender

SENDER = "response_sender"


class ReceiverGoneError(BackedgeError):
    """The frontend no longer accepts chunks of a response, for example after a disconnect."""


class Egress(Protocol):
    """The destination of one response's chunks.

    busy: the last chunk is not sent yet. Then `send` must not be called; `notify` requests a
        callback on the event loop.
    """

    busy: bool

    def send(self, chunk: JsonObject, *, last: bool = False) -> None:
        """Send a chunk; the last one ends the response. Raises `ReceiverGoneError`."""

    def notify(self) -> None:
        """Call back once when the last chunk is sent."""

    def end(self) -> None:
        """Signal the end of the response."""


class PullEgress(Egress):
    """Returns each chunk when Dynamo asks for it.

    flush: sends what is due. ended: the last chunk was returned.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        self.busy = True  # until Dynamo asks for a chunk
        self.ended = False
        self._flush = flush
        self._waiter: asyncio.Future[JsonObject | None]

    async def next(self) -> JsonObject | None:
        """Return the next chunk; None at the end."""
        self._waiter = asyncio.get_running_loop().create_future()
        self.busy = False
        self._flush()
        return await self._waiter

    @override
    def send(self, chunk: JsonObject, *, last: bool = False) -> None:
        self.busy, self.ended = True, last
        self._waiter.set_result(chunk)

    @override
    def notify(self) -> None:
        """Do nothing: `next` flushes."""

    @override
    def end(self) -> None:
        if not self.busy and not self._waiter.done():
            self._waiter.set_result(None)


class PushEgress(Egress):
    """Sends the chunks of one response: the first ones directly, the others in a thread.

    flush: the callback of `notify`.
    own: the thread that serves only this response, once it has blocked a thread.
    closed: no more chunks will be sent.
    """

    def __init__(self, sender: ResponseSender, flush: Callable[[], None]) -> None:
        self.busy = False
        self.own: _SenderThread | None = None
        self.closed = False
        self._sender = sender
        self._flush = flush
        self._direct = DIRECT_CHUNKS
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.create_future()
        self._chunk: JsonObject
        self._last = False
        self._failure: BaseException | None = None
        self._notifies = False
        self._watch: asyncio.TimerHandle | None = None

    @override
    def send(self, chunk: JsonObject, *, last: bool = False) -> None:
        if self._direct:
            self._direct -= 1
            try:
                self._sender.send(chunk)
            except RuntimeError as error:
                raise ReceiverGoneError(str(error)) from error
            if last:
                self._sender.close()
            return
        if self._failure is not None:
            raise self._failure
        self._chunk, self._last, self.busy = chunk, last, True
        (self.own or _shared_thread()).queue.put(self)

    @override
    def notify(self) -> None:
        if not self._notifies:
            self._notifies = True
            self._check()

    def _check(self) -> None:
        """Flush if the last chunk is sent; otherwise poll, since a thread may be stuck."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self.closed or not self._notifies:
            return
        if self.busy:
            _shared_thread()
            self._watch = self._loop.call_later(STUCK_MS / 1000, self._check)
        else:
            self._notifies = False
            self._flush()

    @override
    def end(self) -> None:
        if not self._end.done():
            self._end.set_result(None)

    async def wait_end(self) -> None:
        """Wait for `end`."""
        await self._end

    async def sent(self) -> None:
        """Wait until all chunks are sent. Raises as `send`."""
        while self.busy:
            gone = self._loop.create_future()
            self._flush = functools.partial(_set, gone)
            self.notify()
            await gone
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Release the thread that serves only this response."""
        self.closed = True
        if self._watch is not None:
            self._watch.cancel()
        if self.own is not None:
            self.own.queue.put(None)

    def send_now(self) -> None:
        """Send the chunk; runs in a thread."""
        try:
            self._sender.send(self._chunk)
            if self._last:
                self._sender.close()
        except RuntimeError as error:
            self._failure = ReceiverGoneError(str(error))
        except BaseException as error:  # noqa: BLE001 - the event loop raises it
            self._failure = error
        self.busy = False
        if self._notifies:
            with suppress(RuntimeError):  # the event loop has ended
                self._loop.call_soon_threadsafe(self._check)


async def send_all(chunks: AsyncGenerator[JsonObject, None], sender: ResponseSender) -> None:
    """Send all `chunks` unchanged.

    Exceptions of `chunks` are raised, so that Dynamo sees their type. If the receiver is gone,
    `chunks` are closed.
    """
    egress = PushEgress(sender, lambda: None)
    with suppress(ReceiverGoneError), closing(egress):
        async with aclosing(chunks):
            try:
                async for chunk in chunks:
                    if egress.busy:
                        await egress.sent()
                    egress.send(chunk)
            except Exception:
                await egress.sent()  # the error follows the generated chunks
                raise
        await egress.sent()
        sender.close()


async def push(
    chunks: AsyncGenerator[JsonObject, None], sender: ResponseSender
) -> AsyncGenerator[JsonObject, None]:
    """Send all `chunks` and yield none. Raises as `send_all`."""
    await send_all(chunks, sender)
    return
    yield  # makes this a generator


def push_or_pull(
    chunks: AsyncGenerator[JsonObject, None], sender: ResponseSender | None
) -> AsyncGenerator[JsonObject, None]:
    """Return the result of a handler for Dynamo: `chunks`, or a generator that pushes them.

    In-process calls and health checks have no sender.
    """
    return chunks if sender is None else push(chunks, sender)


def take_sender(function: Callable[..., object], generate: Callable[..., object]) -> None:
    """Give `function`, which replaces a handler's `generate`, the parameter for the sender.

    Dynamo reads the signature, which `functools.wraps` copies from `generate`.
    """
    signature = inspect.signature(generate)
    sender = inspect.Parameter(SENDER, inspect.Parameter.KEYWORD_ONLY, default=None)
    parameters = {**signature.parameters, SENDER: sender}
    in_order = sorted(parameters.values(), key=lambda parameter: parameter.kind)
    signed = signature.replace(parameters=in_order)
    function.__signature__ = signed  # type: ignore[attr-defined]  # inspect documents it


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _SenderThread:
    """A thread that sends the chunks of the queued responses until it reads None."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[PushEgress | None] = queue.SimpleQueue()
        self._since = inf  # when the chunk being sent was taken
        self._response: PushEgress
        threading.Thread(target=self._run, name="backedge-egress", daemon=True).start()

    @property
    def stuck(self) -> bool:
        """Whether the thread has been sending one chunk for long."""
        return time.monotonic() - self._since > STUCK_MS / 1000

    def hand_over(self, other: _SenderThread) -> None:
        """Keep the response being sent; pass the others to another thread."""
        with suppress(queue.Empty):
            while True:
                other.queue.put(self.queue.get_nowait())
        self._response.own = self
        if self._response.closed:
            self.queue.put(None)

    def _run(self) -> None:
        while (response := self.queue.get()) is not None:
            self._response, self._since = response, time.monotonic()
            response.send_now()
            self._since = inf


_shared: _SenderThread | None = None


def _shared_thread() -> _SenderThread:
    """Return the thread for all responses without a thread of their own."""
    global _shared  # noqa: PLW0603 - one per process
    thread = _shared
    if thread is not None and not thread.stuck:
        return thread
    _shared = replacement = _SenderThread()
    if thread is not None:
        thread.hand_over(replacement)
    return replacement
