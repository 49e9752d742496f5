"""An engine over gRPC: what its errors become, and what happens when it goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import grpc
import pytest
from backedge.base import limits
from backedge.base.errors import RequestError, SetupError
from backedge.base.json_types import JsonObject
from backedge.engines.dynamo.types import GRAMMAR_WAITS
from backedge.worker.grpc_server import GrpcServer, ServedModel
from backedge.worker.remote_engine import RemoteEngine
from backedge.worker.sidecar import Sidecar
from dynamo.common.backend.worker import WorkerConfig
from dynamo.llm.exceptions import EngineShutdown, InvalidArgument, Unknown

from tests.frontend.doubles import Context

MODEL = ServedModel("m", context_length=9, vocabulary_size=7)


def error(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="why")


class Running:
    """A call that gives two tokens, and then waits or fails."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure
        self.cancelled = asyncio.Event()

    def __aiter__(self) -> AsyncIterator[object]:
        return self.responses()

    async def responses(self) -> AsyncGenerator[object, None]:
        yield 1
        yield 2
        if self.failure is not None:
            raise self.failure
        await self.cancelled.wait()
        raise asyncio.CancelledError

    def cancel(self) -> bool:
        self.cancelled.set()
        return True


class Asked:
    def __init__(self, call: Running) -> None:
        self.call = call

    def read(self, response: object) -> list[JsonObject]:
        return [{"index": 0, "token_ids": [response]}]


class Server:
    """healthy: what a probe says, or raises. calls: those that were started."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.healthy: bool | Exception = True
        self.model: ServedModel | Exception = MODEL
        self.calls: list[Running] = []

    async def describe(self, timeout_s: float) -> ServedModel:
        if isinstance(self.model, Exception):
            raise self.model
        return self.model

    async def is_healthy(self, timeout_s: float) -> bool:
        await asyncio.sleep(0)
        if isinstance(self.healthy, Exception):
            raise self.healthy
        return self.healthy

    def ask(self, request: JsonObject, request_id: str) -> Asked:
        if "wrong" in request:
            raise RequestError("wrong", "cannot be said")
        self.calls.append(Running(self.failure))
        return Asked(self.calls[-1])

    def subscribe(self) -> Running:
        return Running(None)


def build(server: Server, start_timeout_s: float = 5.0) -> RemoteEngine:
    config = WorkerConfig(namespace="dynamo", model_name="m")
    return Sidecar(cast("GrpcServer", server), "vllm", "host:1", config, start_timeout_s)


async def collect(engine: RemoteEngine, request: JsonObject) -> list[JsonObject]:
    return [output async for output in engine.generate(request, Context())]


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ENGINE_PROBE_INTERVAL_S", 0.001)


@pytest.mark.parametrize(
    ("code", "healthy", "expected"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, True, InvalidArgument),
        (grpc.StatusCode.OUT_OF_RANGE, True, InvalidArgument),
        (grpc.StatusCode.UNAVAILABLE, True, EngineShutdown),
        (grpc.StatusCode.DEADLINE_EXCEEDED, True, EngineShutdown),
        (grpc.StatusCode.INTERNAL, True, Unknown),
        (grpc.StatusCode.INTERNAL, False, EngineShutdown),
        (grpc.StatusCode.INTERNAL, error(grpc.StatusCode.UNAVAILABLE), EngineShutdown),
    ],
)
def test_errors(code: grpc.StatusCode, healthy: Any, expected: type[Exception]) -> None:
    async def run() -> None:
        server = Server(error(code))
        server.healthy = healthy
        with pytest.raises(expected, match="why"):
            await collect(build(server), {})
        assert server.calls[0].cancelled.is_set()

    asyncio.run(run())


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="`wrong` cannot be said"):
        asyncio.run(collect(build(Server()), {"wrong": 1}))


def test_the_end_of_the_generator_ends_the_request() -> None:
    async def run() -> None:
        server = Server()
        outputs = build(server).generate({}, Context())
        assert await anext(outputs) == {"index": 0, "token_ids": [1]}
        await outputs.aclose()
        assert server.calls[0].cancelled.is_set()

    asyncio.run(run())


@pytest.mark.parametrize("healthy", [False, error(grpc.StatusCode.UNAVAILABLE)], ids=str)
def test_an_engine_that_does_not_come_up(healthy: Any) -> None:
    server = Server()
    server.healthy = healthy
    with pytest.raises(SetupError, match=r"host:1 did not come up within 0\.01 s.*--engine"):
        asyncio.run(build(server, 0.01).start(1))


@pytest.mark.parametrize("waits", [False, True, None])
@pytest.mark.parametrize("thinks", [False, True])
def test_whether_a_grammar_waits_is_on_the_card(
    waits: bool | None, thinks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    server.model = ServedModel("m", grammar_waits=waits)
    engine = build(server)
    engine.thinks = thinks

    async def run() -> object:
        config = await engine.start(1)
        await engine.cleanup()
        return config.runtime_data

    known = thinks and waits is not None
    assert asyncio.run(run()) == ({GRAMMAR_WAITS: waits} if known else {})
    assert ("start it with --reasoning-parser" in caplog.text) is (known and not waits)


def test_each_rank_is_a_source_of_events() -> None:
    async def run() -> list[int]:
        server = Server()
        server.model = ServedModel("m", data_parallel_size=3)
        engine = build(server)
        await engine.start(1)
        sources = await engine.kv_event_sources()
        await engine.cleanup()
        return [source.dp_rank for source in sources]

    assert asyncio.run(run()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("model", "back"), [(MODEL, True), (ServedModel("other"), False), (SetupError("a lie"), False)]
)
def test_an_engine_goes_away_and_comes_back(model: ServedModel | Exception, back: bool) -> None:
    """Its requests move; a model that it did not serve before gets none."""

    async def run() -> None:
        server = Server()
        engine = build(server)
        seen: list[bool] = []
        engine.on_health = seen.append
        config = await engine.start(1)
        assert config.llm is not None
        assert (config.llm.context_length, engine.vocabulary_size) == (9, 7)
        outputs = engine.generate({}, Context())
        assert [await anext(outputs), await anext(outputs)][1]["token_ids"] == [2]
        server.healthy = error(grpc.StatusCode.DEADLINE_EXCEEDED)
        with pytest.raises(EngineShutdown, match="does not answer"):
            await anext(outputs)
        assert seen == [False]
        server.healthy, server.model = True, model
        await asyncio.sleep(0.05)
        assert seen == [False, True][: 1 + back]
        server.model = MODEL
        await asyncio.sleep(0.05)
        assert seen == [False, True], "it is followed on"
        await engine.cleanup()

    asyncio.run(run())
