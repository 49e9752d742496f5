"""transformers' own parser of a description for the streams of plain workers, in a frontend's pool.

The expressions of a model's folder may not run in the frontend, whose loop serves all streams. So
a worker's post-processing runs here, around the routed engine.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, suppress

import msgspec
from typing_extensions import override

from ...base.errors import SetupError
from ...base.json_types import JsonObject
from ...base.log import get_logger
from ...frontend.chat_model import WrapEngine
from ...frontend.metrics import LocalParsing
from ...frontend.response.worker_stream import find_output
from ...parsers.base import ParserFactory, ParserNames
from ...parsers.passthrough import PassthroughParsers
from ...postprocess.settings import MERGE_DELAYS, PostprocessSettings
from ...worker.engine_request import EngineRequestHandle
from ...worker.engine_worker import OwnTokenizer, build_described
from ...worker.engine_worker import pool_parts as build_parts
from ...worker.flags import WorkerSettings
from ...worker.pool import PoolSettings, PoolSupervisor
from ...worker.request_stream import WorkerPostprocessor, read_params
from ..dynamo.metrics import Pool
from ..dynamo.types import AnnotatedItem, Context, RoutedEngine

logger = get_logger(__name__)


def pool_parts(
    _: ParserNames, path: str, *, trust_remote_code: bool
) -> tuple[object, ParserFactory]:
    """Return the tokenizer of a model's folder; runs in the fork server."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
    return tokenizer, PassthroughParsers()


async def start_pool(
    names: ParserNames,
    path: str,
    own: OwnTokenizer | None,
    parsing: LocalParsing,
    *,
    trust_remote_code: bool,
) -> WrapEngine:
    """Start the processes of one model; they end when what is returned is gone.

    path: the model's folder. own: the user's tokenizer; None for the one in the folder.
    parsing: counts what they do.
    Raises `SetupError` if they do not start.
    """
    parsers = await asyncio.to_thread(build_described, None, names)
    parts: JsonObject = {
        "module": __name__,
        "names": msgspec.structs.asdict(names),
        "arguments": {"path": path, "trust_remote_code": trust_remote_code},
        "own_tokenizer": own,
    }
    build = f"{build_parts.__module__}:{build_parts.__name__}"
    processes = WorkerSettings(names=names).pool_processes(is_native=True)
    settings = PoolSettings(
        processes=processes,
        build=build,
        arguments=parts,
        parsers_name=parsers.name,
        postprocess=PostprocessSettings(delays=MERGE_DELAYS["lowest"]),
    )
    pool = PoolSupervisor(settings, parsing.report)
    try:
        await pool.ready()
    except SetupError as error:
        pool.close()
        raise SetupError(
            "the processes for transformers' parser of the model's `response_template` do not "
            "start; the log has the reason."
        ) from error
    parsing.pools.add(pool)
    logger.info("the model's `response_template` is parsed in %d processes", processes)
    postprocessor = WorkerPostprocessor(pool)
    close_with(postprocessor, pool, parsing.pools)
    return functools.partial(PooledEngine, postprocessor)


def close_with(owner: object, pool: PoolSupervisor, pools: set[Pool]) -> None:
    """Close `pool`, which must not refer to `owner`, when `owner` is gone; it leaves `pools`."""
    loop = asyncio.get_running_loop()

    def close() -> None:
        pools.discard(pool)
        pool.close()

    def close_soon() -> None:
        with suppress(RuntimeError):  # the loop may be closed
            loop.call_soon_threadsafe(close)

    weakref.finalize(owner, close_soon).atexit = False


class PooledEngine(RoutedEngine):
    """An engine of plain workers, whose chunks become those of workers that post-process."""

    def __init__(self, postprocessor: WorkerPostprocessor, engine: RoutedEngine) -> None:
        self._postprocessor = postprocessor
        self._engine = engine

    @override
    async def generate(
        self, request: JsonObject, *, context: Context
    ) -> AsyncIterator[AnnotatedItem | JsonObject]:
        items = await self._engine.generate(request, context=context)
        params = read_params(request)
        if params is None:
            return items
        handle = StopAtTheEnd(params.n, context)
        outputs = read_outputs(items)
        chunks = self._postprocessor.stream(outputs, params, request["token_ids"], handle)
        return handle.stop_after(chunks)


async def read_outputs(
    items: AsyncIterator[AnnotatedItem | JsonObject],
) -> AsyncIterator[JsonObject]:
    """Yield the outputs in a worker's stream. Raises `WorkerError`."""
    async for item in items:
        if (output := find_output(item)) is not None:
            yield output


class StopAtTheEnd(EngineRequestHandle):
    """Stops a plain worker after its `n` choices if one has ended early, since none stops alone."""

    def __init__(self, n: int, context: Context) -> None:
        self._unfinished = n
        self._context = context
        self._ended_early = False

    @override
    def abort(self, index: int) -> Coroutine[object, None, None]:
        self._ended_early = True  # at once: the last chunk may leave before a coroutine runs
        return asyncio.sleep(0)

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        """Do nothing: the request has been sent."""

    async def stop_after(
        self, chunks: AsyncGenerator[JsonObject, None]
    ) -> AsyncIterator[JsonObject]:
        """Yield `chunks`, and stop the worker with the last one."""
        async with aclosing(chunks):
            async for chunk in chunks:
                self._unfinished -= "finish_reason" in chunk
                if self._ended_early and not self._unfinished:
                    self._context.stop_generating()
                yield chunk
