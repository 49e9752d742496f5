"""Running a pool in a test, and sending it requests."""

import asyncio
from pathlib import Path

from backedge.base.errors import ParserFailedError
from backedge.postprocess import Chunk
from backedge.postprocess.aggregate import aggregate_deltas
from backedge.postprocess.chunk_scheduler import MERGE_DELAYS
from backedge.postprocess.messages import ChoiceDelta
from backedge.worker.pool import PoolSettings, PoolSupervisor

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
            delays=MERGE_DELAYS["balanced"],
            on_error=on_error,
            deadline_s=deadline_s,
            memory_mb=memory_mb,
        )
        pool = PoolSupervisor(settings, failures.append)
        folder = Path(pool._fork_server.folder)
        try:
            await pool.ready()
            return await asyncio.wait_for(test(pool), 60), folder
        finally:
            pool.close()

    result, folder = asyncio.run(run())
    assert not folder.exists()
    return result, failures


async def stream(pool, text, pause_s=0.0, **fields):
    """Send `text` as the engine would, a token at a time; return the choice as a whole."""
    wake = asyncio.Event()
    loop = asyncio.get_running_loop()
    request = pool.start(params(**fields), [], loop.time(), wake.set)
    deltas: list[ChoiceDelta] = []
    token_ids: list[int] = []
    try:
        for number, token_id in enumerate(ids := encode(text), 1):
            await request.room()
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
