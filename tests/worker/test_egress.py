"""Chunks that are pushed: all of them, in order, and a blocked sender holds up nobody else."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
import types
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest
from backedge.base.json_types import JsonObject
from backedge.base.limits import DIRECT_CHUNKS, STUCK_MS
from backedge.worker.egress import PushEgress, push, push_or_pull, take_sender
from backedge.worker.request_stream import WorkerPostprocessor
from hypothesis import given
from hypothesis import strategies as st

from tests.support import encode, params
from tests.worker.scripted import LOWEST, CountingBackend, Engine, output, run_in_virtual_time

LONG = 3 * DIRECT_CHUNKS


class Sender:
    """Dynamo's sender: takes `room` chunks, and blocks until there is more room.

    takes_s: time that a thread needs for a chunk.
    """

    def __init__(
        self, room: int | None = None, fails_at: int | None = None, takes_s: float = 0.0
    ) -> None:
        self._takes_s = takes_s
        self.sent: list[object] = []
        self.closed = False
        self._fails_at = fails_at
        self._room = None if room is None else threading.Semaphore(room)

    def send(self, chunk: object) -> None:
        if len(self.sent) == self._fails_at:
            raise RuntimeError("the frontend has gone")
        if self._room is not None:
            self._room.acquire()
        if threading.current_thread() is not threading.main_thread():
            time.sleep(self._takes_s)
        self.sent.append(chunk)

    def close(self) -> None:
        self.closed = True

    def read(self, chunks: int) -> None:
        """Make room."""
        assert self._room is not None
        self._room.release(chunks)


class Chunks:
    """A response of `length` chunks, which may raise behind the last one."""

    def __init__(self, length: int, error: Exception | None = None) -> None:
        self.made = 0
        self.ended = False
        self._length = length
        self._error = error

    async def generate(self) -> AsyncGenerator[JsonObject, None]:
        try:
            for number in range(self._length):
                self.made += 1
                yield {"number": number}
            if self._error is not None:
                raise self._error
        finally:
            self.ended = True


def numbers(length: int) -> list[JsonObject]:
    return [{"number": number} for number in range(length)]


async def drain(pushed: AsyncGenerator[Any, None]) -> None:
    async for chunk in pushed:
        raise AssertionError(f"{chunk} is yielded, for which Dynamo fails the request")


@given(length=st.integers(0, LONG))
def test_all_chunks_leave_in_order(length: int) -> None:
    sender, chunks = Sender(), Chunks(length)
    asyncio.run(drain(push(chunks.generate(), sender)))
    assert sender.sent == numbers(length)
    assert sender.closed
    assert chunks.ended


@pytest.mark.parametrize("length", [0, 1, DIRECT_CHUNKS, LONG])
def test_an_error_comes_behind_what_was_generated(length: int) -> None:
    sender, chunks = Sender(takes_s=0.001), Chunks(length, ValueError("the engine"))
    with pytest.raises(ValueError, match="the engine"):
        asyncio.run(drain(push(chunks.generate(), sender)))
    assert sender.sent == numbers(length)
    # Dynamo ends the response with an error of the type that is raised.
    assert not sender.closed


@pytest.mark.parametrize("fails_at", [0, 1, DIRECT_CHUNKS - 1, DIRECT_CHUNKS, LONG - 1])
def test_the_response_ends_when_the_frontend_has_gone(fails_at: int) -> None:
    sender, chunks = Sender(fails_at=fails_at), Chunks(LONG)
    asyncio.run(drain(push(chunks.generate(), sender)))
    assert sender.sent == numbers(fails_at)
    assert chunks.ended
    assert not sender.closed


def test_a_frontend_that_does_not_read_holds_up_its_own_response_alone() -> None:
    """As many of them as there are responses, each stuck in `send`."""
    stuck = [Sender(DIRECT_CHUNKS + number) for number in range(8)]
    slow = [Chunks(LONG) for _ in stuck]
    quick, chunks = Sender(), Chunks(LONG)

    async def run() -> None:
        waiting = [
            asyncio.create_task(drain(push(its.generate(), sender)))
            for its, sender in zip(slow, stuck, strict=True)
        ]
        await drain(push(chunks.generate(), quick))
        assert quick.sent == numbers(LONG)
        await asyncio.sleep(len(stuck) * 3 * STUCK_MS / 1000)
        for its, sender in zip(slow, stuck, strict=True):
            # The one that blocks, and one that waits for it.
            assert its.made <= len(sender.sent) + 2
            sender.read(LONG)
        await asyncio.gather(*waiting)

    asyncio.run(run())
    assert all(sender.sent == numbers(LONG) and sender.closed for sender in stuck)


def test_a_response_that_was_stuck_leaves_no_thread_behind() -> None:
    async def run(sender: Sender) -> None:
        task = asyncio.create_task(drain(push(Chunks(LONG).generate(), sender)))
        await asyncio.sleep(4 * STUCK_MS / 1000)
        sender.read(LONG)
        await task

    before = count_threads(1)
    for _ in range(4):
        asyncio.run(run(Sender(DIRECT_CHUNKS)))
    assert before <= count_threads(1) <= 1


def count_threads(expected: int) -> int:
    """Return how many threads send, at the latest when one that has nothing to do has ended."""
    for _ in range(1000):
        found = sum(thread.name == "backedge-egress" for thread in threading.enumerate())
        if found <= expected:
            break
        time.sleep(0.005)
    return found


def test_a_cancelled_response_lets_go_of_its_thread() -> None:
    sender = Sender(DIRECT_CHUNKS)
    chunks = Chunks(LONG)

    async def run() -> None:
        task = asyncio.create_task(drain(push(chunks.generate(), sender)))
        await asyncio.sleep(4 * STUCK_MS / 1000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert chunks.ended

    asyncio.run(run())
    sender.read(LONG)


def test_nothing_looks_after_a_response_that_has_ended_while_it_was_stuck() -> None:
    sender = Sender(DIRECT_CHUNKS)
    flushed: list[None] = []

    async def run() -> None:
        egress = PushEgress(sender, lambda: flushed.append(None))
        for number in range(DIRECT_CHUNKS + 1):
            egress.send({"number": number})
        egress.notify()
        egress._check()  # as the thread has it called, while the first look is due as well
        egress.close()
        await asyncio.sleep(3 * STUCK_MS / 1000)

    run_in_virtual_time(run())
    sender.read(1)
    assert not flushed


class Handler:
    """One of Dynamo's handlers."""

    async def generate(self, request: JsonObject, context: object) -> AsyncGenerator[JsonObject]:
        yield {**request, "context": context}

    async def with_sender(
        self, request: JsonObject, context: object, response_sender: object = None
    ) -> AsyncGenerator[JsonObject]:
        yield {**request, "context": context}

    async def with_options(
        self, request: JsonObject, context: object, **options: object
    ) -> AsyncGenerator[JsonObject]:
        yield {**request, "context": context}


@pytest.mark.parametrize("generate", [Handler.generate, Handler.with_sender, Handler.with_options])
def test_dynamo_finds_the_sender_in_what_replaces_a_handlers_method(
    generate: Callable[..., object],
) -> None:
    @functools.wraps(generate)
    def replaced(self: object, *args: object, response_sender: object = None) -> object:
        return response_sender

    take_sender(replaced, generate)
    handler = types.MethodType(replaced, Handler())
    assert "response_sender" in inspect.signature(handler).parameters


def test_a_call_without_a_sender_is_pulled() -> None:
    chunks = Chunks(1).generate()
    assert push_or_pull(chunks, None) is chunks
    sender = Sender()
    asyncio.run(drain(push_or_pull(chunks, sender)))
    assert sender.sent == numbers(1)


class EndNotingSender(Sender):
    """Notes whether the end follows the last chunk at once, in the same thread."""

    ends_at_once: bool | None = None
    _thread: threading.Thread | None = None

    def send(self, chunk: object) -> None:
        super().send(chunk)
        self._thread = threading.current_thread()
        if self._thread is threading.main_thread():
            asyncio.get_running_loop().call_soon(setattr, self, "_thread", None)

    def close(self) -> None:
        super().close()
        if self.ends_at_once is None:
            self.ends_at_once = self._thread is threading.current_thread()


@pytest.mark.parametrize("length", [1, DIRECT_CHUNKS, DIRECT_CHUNKS + 1, LONG])
def test_nothing_runs_between_the_finish_and_the_end(length: int) -> None:
    """If a worker died there, Dynamo would have another one continue a complete answer."""
    steps = [step for _ in range(length - 1) for step in (output("a"), 0.0)]
    engine = Engine([*steps, output("b", finish_reason="stop")])
    worker, sender = WorkerPostprocessor(CountingBackend(LOWEST)), EndNotingSender()
    asyncio.run(drain(worker.stream(engine.outputs(), params(), [], engine, sender)))
    assert sender.ends_at_once


@pytest.mark.parametrize("length", [1, DIRECT_CHUNKS, LONG])
def test_a_failed_request_has_sent_what_was_generated(length: int) -> None:
    engine = Engine([step for _ in range(length) for step in (output("a"), 0.0)] + [KeyError("x")])
    worker, sender = WorkerPostprocessor(CountingBackend(LOWEST)), Sender(takes_s=0.001)

    async def run() -> None:
        await drain(worker.stream(engine.outputs(), params(), [], engine, sender))

    with pytest.raises(KeyError):
        asyncio.run(run())
    chunks = cast(list[JsonObject], sender.sent)
    assert [token_id for chunk in chunks for token_id in chunk["token_ids"]] == encode("a") * length
    assert engine.closed
    assert not sender.closed
