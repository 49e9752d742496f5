"""Running a pool in a test, and sending it requests."""

import asyncio
import gc
import tempfile
from pathlib import Path
from unittest import mock

from backedge.base.errors import ParserFailedError
from backedge.postprocess import Chunk
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import ChoiceDelta
from backedge.postprocess.settings import PostprocessSettings
from backedge.worker.backend import NewRequest
from backedge.worker.pool import PoolSettings, PoolSupervisor
from backedge.worker.pool.fork_server import PROGRAM
from backedge.worker.pool.stream import PooledStream

from tests.support import encode, params

WORDS = "one two three four five six seven eight nine ten"
PARTS = "tests.worker.pool.pool_parts:build"


def in_pool(
    test,
    processes=2,
    deadline_s=1.0,
    on_error="degrade",
    build=PARTS,
    memory_mb=2048,
    on_presence=None,
    **arguments,
):
    """Run `test(pool)` with a pool; return its result and the failures reported."""
    failures: list[ParserFailedError] = []

    async def run():
        settings = PoolSettings(
            processes=processes,
            build=build,
            arguments=arguments,
            parsers_name="misbehaving",
            postprocess=PostprocessSettings(
                on_error=on_error, deadline_s=deadline_s, memory_mb=memory_mb
            ),
        )
        pool = PoolSupervisor(settings, failures.append, on_presence)
        try:
            await pool.ready()
            return await asyncio.wait_for(test(pool), 60)
        finally:
            pool.close()

    with tempfile.TemporaryDirectory() as place, mock.patch.object(tempfile, "tempdir", place):
        result = asyncio.run(run())
        assert [*Path(place).iterdir()] == []
    return result, failures


def fork_server_pid(main="self"):
    """Return the pid of the fork server that the process `main` has started; 0 if it has none."""
    for children in Path(f"/proc/{main}/task").glob("*/children"):
        for pid in children.read_text().split():
            if PROGRAM.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
    return 0


def kept_streams():
    """Return how many requests this process keeps for its pools."""
    gc.collect()
    return sum(isinstance(each, PooledStream) for each in gc.get_objects())


async def stream(pool, text, pause_s=0.0, **fields):
    """Send `text` as the engine would, a token at a time; return the choice as a whole."""
    wake = asyncio.Event()
    loop = asyncio.get_running_loop()
    request = pool.start(NewRequest(params(**fields), [], loop.time(), wake.set))
    deltas: list[ChoiceDelta] = []
    token_ids: list[int] = []
    try:
        for number, token_id in enumerate(ids := encode(text), 1):
            while (room := request.room) is not None:
                await room
            request.add(
                Chunk(token_ids=[token_id], finish_reason="length" if number == len(ids) else None),
                loop.time(),
            )
            await asyncio.sleep(pause_s)
        while not deltas or deltas[-1].finish_reason is None:
            wake.clear()
            while request.due <= loop.time():
                for scheduled in request.take(loop.time()):
                    deltas += scheduled.deltas
                    token_ids += scheduled.token_ids
            if not deltas or deltas[-1].finish_reason is None:
                await wake.wait()
    finally:
        request.close()
    assert token_ids == encode(text)
    return aggregate_deltas(deltas)
