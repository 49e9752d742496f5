"""An engine in another process, asked over its gRPC server, as Dynamo's own interface wants it.

`engines/<engine>/remote.py` knows the messages of each engine's server.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from functools import partial

import grpc
from dynamo.common.backend.engine import EngineConfig, LLMEngine, LlmRegistration
from dynamo.common.backend.publisher import KvEventSource, PushSource
from dynamo.common.backend.worker import WorkerConfig
from typing_extensions import override

from ..base import limits
from ..base.errors import RequestError, SetupError
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..engines.dynamo.types import GRAMMAR_WAITS, Context
from .grpc_calls import Call, describe_error
from .grpc_server import GrpcServer, ServedModel
from .kv_events import CacheEvents

logger = get_logger(__name__)

REFUSED = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.OUT_OF_RANGE,
)
GONE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
# gRPC notices a connection without its other end by keepalives alone.
CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.max_receive_message_length", limits.MAX_ENGINE_MESSAGE),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class RemoteEngine(LLMEngine):
    """The engine of a server at `address`, "host:port".

    start_timeout_s: for the engine's own start.
    on_health: called when the engine goes away, and when it is back.
    thinks: whether answers have reasoning.
    vocabulary_size: None until the engine has started.
    """

    def __init__(
        self,
        server: GrpcServer,
        engine_name: str,
        address: str,
        config: WorkerConfig,
        start_timeout_s: float,
    ) -> None:
        self.engine_name = engine_name
        self.on_health: Callable[[bool], None] = lambda _: None
        self.thinks = False
        self.vocabulary_size: int | None = None
        self._server = server
        self._address = address
        self._config = config
        self._start_timeout_s = start_timeout_s
        self._model: ServedModel | None = None
        self._calls: set[Call] = set()
        self._is_there = True
        self._watch: asyncio.Task[None] | None = None
        self._events: CacheEvents | None = None

    @override
    async def start(self, worker_id: int) -> EngineConfig:
        """Wait until the engine is up. Raises `SetupError` after `start_timeout_s`."""
        self._model = model = await self._wait_until_up()
        self.vocabulary_size = model.vocabulary_size
        runtime_data: JsonObject = {}
        if self.thinks and model.grammar_waits is not None:
            runtime_data[GRAMMAR_WAITS] = model.grammar_waits
        if runtime_data.get(GRAMMAR_WAITS) is False:
            logger.warning(
                "the engine at %s has no reasoning parser, so for stock frontends answers in a "
                "grammar, forced calls among them, begin without reasoning; start it with "
                "--reasoning-parser",
                self._address,
            )
        self._watch = asyncio.get_running_loop().create_task(self._follow_health())
        return EngineConfig(
            model=self._config.model_name,
            served_model_name=self._config.served_model_name,
            runtime_data=runtime_data,
            llm=LlmRegistration(
                context_length=model.context_length,
                kv_cache_block_size=model.block_size,
                max_num_seqs=model.max_num_seqs,
                data_parallel_size=model.data_parallel_size,
            ),
        )

    @override
    async def kv_event_sources(self) -> list[KvEventSource]:
        """Return one source for each data-parallel rank, after `start`."""
        ranks = (self._model and self._model.data_parallel_size) or 1
        self._events = CacheEvents(self._server.subscribe, self._address, ranks)
        return [PushSource(partial(self._events.add, rank), rank) for rank in range(ranks)]

    async def _wait_until_up(self) -> ServedModel:
        deadline = time.monotonic() + self._start_timeout_s
        said = ""
        while True:
            try:
                if await self._server.is_healthy(limits.ENGINE_PROBE_S):
                    return await self._server.describe(limits.ENGINE_PROBE_S)
                problem = "it says that it is not healthy"
            except grpc.aio.AioRpcError as error:
                problem = describe_error(error)
            if time.monotonic() > deadline:
                raise SetupError(
                    f"the engine at {self._address} did not come up within "
                    f"{self._start_timeout_s:g} s: {problem}; check --engine, or raise "
                    "--engine-timeout-s."
                )
            if problem != said:
                logger.info("waiting for the engine at %s: %s", self._address, problem)
                said = problem
            await asyncio.sleep(limits.ENGINE_PROBE_INTERVAL_S)

    @override
    async def generate(
        self, request: JsonObject, context: Context
    ) -> AsyncGenerator[JsonObject, None]:
        """Yield the engine's outputs. Ending the generator ends the request in the engine."""
        from dynamo.llm.exceptions import EngineShutdown, InvalidArgument

        try:
            asked = self._server.ask(request, f"{context.id()}-{uuid.uuid4().hex[:8]}")
        except RequestError as error:
            raise InvalidArgument(str(error)) from None
        self._calls.add(asked.call)
        try:
            async for response in asked.call:
                for output in asked.read(response):
                    yield output
        except grpc.aio.AioRpcError as error:
            raise await self._explain(error) from None
        except asyncio.CancelledError:
            if self._is_there:
                raise
            raise EngineShutdown(f"the engine at {self._address} does not answer") from None
        finally:
            asked.call.cancel()
            self._calls.discard(asked.call)

    async def _explain(self, error: grpc.aio.AioRpcError) -> Exception:
        """Return Dynamo's exception; with an EngineShutdown it moves the request."""
        from dynamo.llm.exceptions import EngineShutdown, InvalidArgument, Unknown

        problem = f"the engine at {self._address}: {describe_error(error)}"
        found: Exception
        if error.code() in REFUSED:
            found = InvalidArgument((error.details() or "")[: limits.MAX_ERROR])
        elif error.code() in GONE or not await self._answers():
            found = EngineShutdown(problem)
        else:
            found = Unknown(problem)
        return found

    async def _answers(self) -> bool:
        try:
            return await self._server.is_healthy(limits.ENGINE_PROBE_S)
        except grpc.aio.AioRpcError:
            return False

    async def _follow_health(self) -> None:
        """Report when the engine goes away or is back, and end requests that it left."""
        failed = 0
        while True:
            await asyncio.sleep(limits.ENGINE_PROBE_INTERVAL_S)
            failed = 0 if await self._is_same() else failed + 1
            if failed == limits.MAX_FAILED_PROBES:
                logger.error("the engine at %s does not answer", self._address)
                self._is_there = False
                self.on_health(False)
                for call in list(self._calls):
                    call.cancel()
            elif not failed and not self._is_there:
                logger.warning("the engine at %s answers again", self._address)
                self._is_there = True
                self.on_health(True)

    async def _is_same(self) -> bool:
        """Whether the engine answers, and after an absence serves the model that it served."""
        if not await self._answers():
            return False
        if self._is_there:
            return True
        found: ServedModel | SetupError
        try:
            found = await self._server.describe(limits.ENGINE_PROBE_S)
        except grpc.aio.AioRpcError:
            return False
        except SetupError as error:
            found = error
        if found != self._model:
            logger.error(
                "the engine at %s serves another model now: %s, not %s; restart this worker",
                self._address,
                found,
                self._model,
            )
        return found == self._model

    @override
    async def cleanup(self) -> None:
        """Stop following the engine."""
        if self._events is not None:
            self._events.stop()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
