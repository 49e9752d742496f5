"""One request in the pool: what it sends to a process, and what becomes of the answers."""

import asyncio
from math import inf
from typing import Any

import msgspec
import pytest
from backedge.base.errors import ParserFailedError
from backedge.base.limits import MAX_BACKLOG
from backedge.postprocess import Chunk
from backedge.postprocess.chunk_scheduler import ScheduledChunk
from backedge.postprocess.messages import ChoiceDelta
from backedge.postprocess.settings import MERGE_DELAYS
from backedge.worker.backend import NewRequest
from backedge.worker.pool import messages
from backedge.worker.pool.stream import PooledStream
from hypothesis import given
from hypothesis import strategies as st

from tests.support import encode, params
from tests.worker.pool.pools import WORDS, in_pool, stream

KEY = 7


class Process:
    """Notes what it is sent."""

    def __init__(self):
        self.keys = set()
        self.sent = []

    def send(self, request):
        self.sent.append(request)

    def kinds(self):
        return [type(request).__name__ for request in self.sent]


class Answered:
    """What a stream has told."""

    def __init__(self):
        self.wakes = 0
        self.failures = []
        self.closed = []

    def wake(self):
        self.wakes += 1


def begin(**fields):
    told = Answered()
    process: Any = Process()
    new = NewRequest(params(**fields), [], 0.0, told.wake)
    delays = MERGE_DELAYS["balanced"]
    pooled = PooledStream(KEY, new, delays, told.failures.append, told.closed.append)
    pooled.move(process)
    return pooled, process, told


def result(chunks, index=0, *, deltas=(), finished=False):
    scheduled = ScheduledChunk(index, [], list(deltas), finished=finished)
    return messages.Result(KEY, chunks, chunks, scheduled)


def test_another_process_gets_all_steps_again():
    pooled, first, _ = begin()
    for now in range(3):
        pooled.add(Chunk(token_ids=[now]), float(now))
    pooled.receive(messages.Progress(KEY, 2))
    pooled.receive(result(1))
    pooled.flush(3.0)
    second: Any = Process()
    pooled.move(second)
    assert first.kinds() == ["OpenRequest", "Feed", "Feed", "Feed", "Flush", "Close"]
    assert second.kinds() == ["OpenRequest", "Feed", "Feed", "Feed", "Flush"]
    again = second.sent[0]
    assert (again.processed, again.seen, again.parsed) == (2, [1], None)
    assert (first.keys, second.keys) == (set(), {KEY})


@pytest.mark.parametrize(("quick", "parsed"), [(None, [3, 1, 0]), (2, [2, 1, 0]), (0, [1, 0])])
def test_parsers_are_left_after_the_quick_steps_then_where_the_client_is_then_at_once(
    quick, parsed
):
    pooled, _, _ = begin()
    pooled.quick = quick
    for now in range(3):
        pooled.add(Chunk(token_ids=[now]), float(now))
    pooled.receive(result(1, deltas=[ChoiceDelta(0)]))
    pooled.receive(result(2))
    pooled.receive(messages.Progress(KEY, 3))
    for steps in parsed:
        assert pooled.leave_parsers()
        process: Any = Process()
        pooled.move(process)
        again = process.sent[0]
        assert (again.seen, again.shown, again.parsed) == ([2], [1], steps)
    assert not pooled.leave_parsers()


def test_the_oldest_token_is_one_without_a_result():
    pooled, _, _ = begin(n=2)
    assert (pooled.oldest, pooled.idle) == (inf, True)
    pooled.add(Chunk(token_ids=[1]), 5.0, 1.5)
    pooled.add(Chunk(index=1, token_ids=[1]), 6.0)
    assert (pooled.oldest, pooled.idle) == (3.5, False)
    pooled.receive(result(1))
    assert pooled.oldest == 6.0
    pooled.receive(result(0, 1, finished=True))
    assert (pooled.oldest, pooled.idle) == (inf, True)


def test_results_are_due_at_once():
    pooled, _, told = begin()
    assert pooled.due == inf
    pooled.receive(result(0))
    assert (pooled.due, told.wakes) == (0.0, 1)
    assert len(pooled.take(1.0)) == 1
    assert pooled.due == inf


def test_a_fatal_failure_comes_after_the_results_and_once():
    pooled, process, told = begin()
    pooled.receive(result(0))
    pooled.receive(messages.Failure(KEY, "x", 3, "boom", fatal=True))
    assert len(pooled.take(1.0)) == 1
    with pytest.raises(ParserFailedError, match="boom"):
        pooled.take(1.0)
    assert (pooled.due, pooled.idle, len(told.failures)) == (inf, True, 1)
    assert process.kinds()[-1] == "Close"


def test_a_failure_that_is_not_fatal_is_reported_only():
    pooled, _, told = begin()
    pooled.receive(messages.Failure(KEY, "x", 3, "boom", fatal=False))
    assert (pooled.take(1.0), [failure.position for failure in told.failures]) == ([], [3])


def test_a_closed_request_leaves_its_process():
    pooled, process, told = begin()
    pooled.close()
    assert (process.kinds(), process.keys) == (["OpenRequest", "Close"], set())
    assert told.closed == [pooled]


def test_room_waits_for_the_process():
    async def run():
        pooled, _, _ = begin()
        for _ in range(MAX_BACKLOG + 1):
            pooled.add(Chunk(token_ids=[1]), 0.0)
        room = pooled.room
        assert room is not None
        await asyncio.sleep(0)
        assert not room.done()
        pooled.receive(messages.Progress(KEY, 1))
        await asyncio.wait_for(room, 1)
        assert pooled.room is None

    asyncio.run(run())


@given(
    token_ids=st.lists(st.integers(0, 100), max_size=6),
    finish_reason=st.sampled_from([None, "stop"]),
    has_logprobs=st.booleans(),
)
def test_steps_are_single_tokens_that_make_the_chunk(token_ids, finish_reason, has_logprobs):
    logprobs = [-float(token_id) for token_id in token_ids] if has_logprobs else None
    chunk = Chunk(token_ids=token_ids, finish_reason=finish_reason, logprobs=logprobs)
    steps = chunk.split()
    assert all(len(step.token_ids) <= 1 for step in steps)
    assert [step.finish_reason for step in steps] == [None] * (len(steps) - 1) + [finish_reason]
    whole = msgspec.structs.replace(
        steps[-1],
        token_ids=[token_id for step in steps for token_id in step.token_ids],
        logprobs=[logprob for step in steps for logprob in step.logprobs or ()]
        if has_logprobs
        else None,
    )
    assert whole == chunk


def test_a_slow_process_slows_only_its_own_requests():
    async def test(pool):
        request = pool.start(NewRequest(params(), [], 0.0))
        for token_id in encode("SLOW "):
            request.add(Chunk(token_ids=[token_id]), 0.0)
        for _ in range(300):
            request.add(Chunk(token_ids=encode("a")), 0.0)
        await asyncio.sleep(0.2)
        waits = request.room is not None
        whole = await stream(pool, WORDS)
        while request.room is not None:
            await request.room
        request.close()
        return waits, whole.delta.content

    assert in_pool(test, slow_s=0.4)[0] == (True, WORDS)
