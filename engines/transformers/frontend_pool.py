"""transformers' own parser of a description for the streams of plain workers, in a frontend's pool.

The expressions of a model's folder may not run in the frontend, whose loop serves all streams. So
a worker's post-processing runs here, around the routed engine.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from contextlib import suppress

import msgspec

from ...base.errors import SetupError
from ...base.json_types import JsonObject
from ...base.log import get_logger
from ...frontend.chat_model import WrapEngine
from ...frontend.metrics import LocalParsing
from ...parsers.base import ParserFactory, ParserNames
from ...parsers.passthrough import PassthroughParsers
from ...postprocess.settings import MERGE_DELAYS, PostprocessSettings
from ...worker.engine_worker import OwnTokenizer, build_described
from ...worker.engine_worker import pool_parts as build_parts
from ...worker.flags import WorkerSettings
from ...worker.pool import PoolSettings, PoolSupervisor
from ...worker.request_stream import WorkerPostprocessor
from ..dynamo.metrics import Pool
from ..dynamo.plain_workers import PooledEngine

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
