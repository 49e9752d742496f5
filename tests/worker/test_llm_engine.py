"""An engine behind Dynamo's own interface, post-processed; the real stack runs in tests/e2e."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.errors import UnknownParserError
from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.parser_lookup import Kind
from backedge.postprocess.messages import KEY, PostprocessedChunk, WorkerCard, read
from backedge.postprocess.messages import encode as encode_message
from backedge.worker.flags import WorkerSettings
from backedge.worker.llm_engine import LLMEngineWorker, postprocessed, read_flags
from dynamo.common.backend.engine import EngineConfig, LLMEngine
from dynamo.common.backend.worker import WorkerConfig
from dynamo.common.constants import DisaggregationMode

from tests.frontend.doubles import Context
from tests.support import TINY_MODEL, encode, params

TOKENS = encode("one, two, three and four")
OWN = {"start", "generate", "on_endpoint_ready"}
PUBLIC = [
    name
    for name, member in inspect.getmembers(LLMEngine, callable)
    if not name.startswith("_") and name not in {*OWN, "from_args", "register"}
]


class Counting(LLMEngine):
    """Gives each choice a token in turn. closed, aborted: how often that happened."""

    def __init__(self) -> None:
        self.closed = self.aborted = self.sent = 0

    @classmethod
    async def from_args(cls, argv: list[str] | None = None) -> tuple[LLMEngine, WorkerConfig]:
        return cls(), config()

    async def start(self, worker_id: int) -> EngineConfig:
        return EngineConfig(model="m", runtime_data={"mine": worker_id})

    async def abort(self, context: Any) -> None:
        self.aborted += 1

    async def cleanup(self) -> None:
        pass

    async def generate(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:
        choices = request["sampling_options"].get("n") or 1
        try:
            for token_id in TOKENS:
                for index in range(choices):
                    await asyncio.sleep(0)
                    self.sent += 1
                    yield {"index": index, "token_ids": [token_id]}
            for index in range(choices):
                yield {"index": index, "token_ids": [], "finish_reason": "stop"}
        finally:
            self.closed += 1


def config(**fields: Any) -> WorkerConfig:
    return WorkerConfig(namespace="dynamo", model_name=str(TINY_MODEL), **fields)


def build_request(**fields: Any) -> JsonObject:
    own = params(prompt_length=2, **fields)
    return {
        "token_ids": [7, 8],
        "sampling_options": {"n": own.n},
        "extra_args": {KEY: encode_message(own)},
    }


async def answer(engine: Any, request: JsonObject) -> list[JsonObject]:
    await engine.start(1)
    chunks = [chunk async for chunk in engine.generate(request, Context())]
    for _ in range(10):
        await asyncio.sleep(0)  # what is read behind the answer
    return chunks


def texts(chunks: list[JsonObject]) -> dict[int, str]:
    found: dict[int, str] = {}
    for chunk in chunks:
        processed = read(PostprocessedChunk, chunk["extra_args"][KEY])
        assert processed is not None
        for each in processed.deltas:
            found[each.index] = found.get(each.index, "") + (each.delta.content or "")
    return found


@pytest.mark.parametrize("n", [1, 2])
def test_a_stop_string_ends_the_engine_s_request(n: int) -> None:
    engine = Counting()
    chunks = asyncio.run(
        answer(postprocessed(engine, config()), build_request(n=n, stop=["three"]))
    )
    assert texts(chunks) == dict.fromkeys(range(n), "one, two, ")
    ends = [chunk["finish_reason"] for chunk in chunks if chunk.get("finish_reason")]
    assert ends == ["stop"], "Dynamo ends a response with the first one"
    assert (engine.aborted, engine.closed) == (1, 1)
    assert engine.sent < n * len(TOKENS)


class Writing(Counting):
    """Writes one whole call, and one that is cut."""

    TEXT = (
        '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "f", "a'
    )

    async def generate(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:
        yield {"index": 0, "token_ids": encode(self.TEXT), "finish_reason": "length"}


class Traced(Context):
    """Dynamo's context, with the attributes of its span."""

    def __init__(self) -> None:
        self.attributes: dict[str, object] = {}

    def current_span(self) -> Traced:
        return self

    def set_attribute(self, key: str, value: object) -> None:
        self.attributes[key] = value


@pytest.mark.parametrize("exports", ["1", "0"])
def test_dynamo_s_span_of_a_request_has_its_parsers_and_calls(
    exports: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORT_ENABLED", exports)
    settings = WorkerSettings(names=ParserNames("hermes"))
    engine, context = postprocessed(Writing(), config(), settings), Traced()
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    request = build_request(parser=ParserRequest(tools=[tool], tool_choice="auto"))

    async def run() -> None:
        await engine.start(1)
        async for _ in engine.generate(request, context):
            pass

    asyncio.run(run())
    found = {
        "backedge.parsers": settings.names.label,
        "backedge.calls": 1,
        "backedge.open_calls": 1,
    }
    assert context.attributes == (found if exports == "1" else {})


def test_an_answer_to_its_end_aborts_nothing() -> None:
    engine = Counting()
    chunks = asyncio.run(answer(postprocessed(engine, config()), build_request()))
    assert texts(chunks) == {0: "one, two, three and four"}
    assert (engine.aborted, engine.closed, engine.sent) == (0, 1, len(TOKENS))


def test_requests_of_others_pass_untouched() -> None:
    request = {"token_ids": [7], "sampling_options": {}}
    settings = WorkerSettings(stock_frontends=False)
    chunks = asyncio.run(answer(postprocessed(Counting(), config(), settings), request))
    assert chunks[:2] == [{"index": 0, "token_ids": [each]} for each in TOKENS[:2]]


def test_the_card_stands_beside_the_engine_s_own_entries() -> None:
    settings = WorkerSettings(names=ParserNames("hermes", "qwen3"))
    engine = postprocessed(Counting(), config(), settings)
    data = asyncio.run(engine.start(5)).runtime_data
    card = read(WorkerCard, data.pop(KEY))
    assert data == {"mine": 5}
    assert card is not None
    assert (card.engine, card.tool_call_parser, card.reasoning_parser) == (
        *("Counting", "hermes", "qwen3"),
    )


def test_dynamo_s_flags_name_parsers_as_well() -> None:
    engine = postprocessed(Counting(), config(tool_call_parser="hermes"))
    card = read(WorkerCard, asyncio.run(engine.start(5)).runtime_data[KEY])
    assert card is not None
    assert card.tool_call_parser == "hermes"


def test_a_parser_that_is_not_there_is_named_before_the_engine_starts() -> None:
    settings = WorkerSettings(names=ParserNames("no such one"), parsers="linear")
    with pytest.raises(UnknownParserError, match="no such one"):
        asyncio.run(postprocessed(Counting(), config(), settings).start(1))


@pytest.mark.parametrize(
    ("kind", "names", "processes"),
    [
        ("auto", ParserNames("auto", "auto"), 0),
        ("linear", ParserNames("auto", "auto"), 0),
        ("auto", ParserNames("hermes", "qwen3"), 0),
        ("native", ParserNames("auto", "auto"), 2),
        ("native", ParserNames("hermes", "qwen3"), 2),
    ],
)
def test_the_parsers_that_auto_finds_run_where_named_ones_do(
    kind: Kind, names: ParserNames, processes: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = WorkerSettings(names=names, parsers=kind, workers=2)
    worker = LLMEngineWorker(Counting(), config(), settings)

    async def build() -> None:  # a pool belongs to a loop
        worker.build()

    with caplog.at_level("INFO", "backedge"):
        asyncio.run(build())
    pool = worker.metrics.pool
    assert (0 if pool is None else pool.size) == processes
    assert f"{'native' if processes else 'linear'} parsers qwen3+hermes" in caplog.text


@pytest.mark.parametrize("mode", [DisaggregationMode.PREFILL, DisaggregationMode.ENCODE])
def test_an_engine_that_writes_no_answers_stays_as_it_is(mode: DisaggregationMode) -> None:
    engine = Counting()
    assert postprocessed(engine, config(disaggregation_mode=mode)) is engine


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_else_is_the_engine_s_own(name: str) -> None:
    engine: Any = Counting()
    setattr(engine, name, lambda *given: (name, given))
    wrapped: Any = postprocessed(engine, config())
    assert getattr(wrapped, name)(1, 2) == (name, (1, 2))
    assert isinstance(wrapped, LLMEngine)


def test_the_endpoint_serves_our_metrics_and_is_the_engine_s() -> None:
    engine: Any = Counting()
    given: list[Any] = []

    async def keep(endpoint: object) -> None:
        given.append(endpoint)

    engine.on_endpoint_ready = keep
    registered: list[Callable[[], str]] = []
    metrics = SimpleNamespace(
        register_prometheus_expfmt_callback=registered.append,
        register_prometheus_typed_callback=lambda _: None,
    )
    endpoint = SimpleNamespace(metrics=metrics)
    asyncio.run(postprocessed(engine, config()).on_endpoint_ready(endpoint))
    assert given == [endpoint]
    [collect] = registered
    assert "backedge_requests_started_total" in collect()


def test_flags_are_taken_from_an_engine_s_own() -> None:
    given = ["--mine", "1", "--tool-call-parser", "hermes", "--postprocess-latency", "lowest"]
    settings, rest = read_flags(given)
    assert rest == ["--mine", "1"]
    assert (settings.names, settings.postprocess.delays.content) == (ParserNames("hermes"), 0)


def test_help_shows_our_flags_and_leaves_the_rest_to_the_engine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert read_flags(["--help"])[1] == ["--help"]
    assert "--postprocess-latency" in capsys.readouterr().out


def test_a_wrong_value_ends_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_flags(["--postprocess-deadline-s", "never"])
    assert "never" in capsys.readouterr().err
