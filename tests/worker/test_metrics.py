"""What each metric says after requests of each kind."""

import asyncio
import importlib.metadata
import itertools
import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest
from backedge.frontend.metrics import FrontendMetrics, LocalParsing
from backedge.frontend.turns.turn_store import REASONS, TurnStore
from backedge.parsers.events import Malformation
from backedge.parsers.passthrough import PassthroughParsers
from backedge.postprocess.call_hold import CallFault
from backedge.postprocess.chunk_scheduler import ScheduledChunk
from backedge.postprocess.messages import ChoiceDelta
from backedge.postprocess.settings import MERGE_DELAYS, MergeDelays, PostprocessSettings
from backedge.tokenization.prompt_cache import PromptCache
from backedge.worker.backend import InlineBackend
from backedge.worker.engine_request import EngineRequestHandle
from backedge.worker.metrics import FIRST_MEASURED, MEASURED_ONE_IN, WAIT_BUCKETS_S, WorkerMetrics
from backedge.worker.request_stream import WorkerPostprocessor
from prometheus_client import CollectorRegistry

from tests.support import TRANSCRIPTS, params, parser_request, tiny_detokenizers, tiny_parsers
from tests.support import encode as tokens
from tests.worker.pool.pools import in_pool
from tests.worker.scripted import BrokenParsers

IDS = [*tokens("one, two, three, four"), *tokens("<|im_end|>")]
CALLS = TRANSCRIPTS["parallel_calls"]
CALL_IDS = tokens(CALLS["output"])
WITH_TOOLS = {"parser": parser_request(CALLS)}
REASONING_CALL = TRANSCRIPTS["reasoning_call"]
HERMES = tiny_parsers()
# Nothing goes out before its time but the first delta and the last.
LATE = MergeDelays(content=60.0, reasoning=60.0, tools=60.0, tokens=60.0)
STAGES = ("detokenize", "stop", "parse", "write", "encode")


def exposed(metrics):
    """Return the value of each sample by its name and the values of its labels."""
    registry = CollectorRegistry()
    registry.register(metrics)
    return {
        " ".join((sample.name.removeprefix("backedge_"), *sample.labels.values())): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def moved(before, after):
    """Return by how much each sample has changed, less those that count seconds."""
    changes = {name: value - before.get(name, 0) for name, value in after.items()}
    return {
        name: by
        for name, by in changes.items()
        if by and not re.search("seconds_(total|sum|bucket)", name)
    }


def outputs(ids, index=0, finish_reason="stop", group=1):
    starts = range(0, len(ids), group)
    return [
        {
            "index": index,
            "token_ids": ids[start : start + group],
            "finish_reason": finish_reason if start == starts[-1] else None,
        }
        for start in starts
    ]


class Running(EngineRequestHandle):
    async def abort(self, index):
        pass

    def set_stream_interval(self, index, tokens):
        pass


async def engine(given):
    for output in given:
        yield dict(output)
        await asyncio.sleep(0)  # as between the steps of an engine


async def answer(worker, given, leave_at=None, **fields):
    """Have one request answered; the client leaves when it has so many chunks."""
    stream = worker.stream(engine(given), params(**fields), [], Running())
    received = 0
    async for _ in stream:
        received += 1
        if received == leave_at:
            break
    await stream.aclose()


def build_worker(metrics, parsers=None, delays=LATE, on_error="degrade"):
    settings = PostprocessSettings(delays=delays, on_error=on_error)
    backend = InlineBackend(
        tiny_detokenizers(), parsers or PassthroughParsers(), settings, metrics.report
    )
    return WorkerPostprocessor(backend, metrics)


@dataclass
class Case:
    """One request.

    given: the engine's outputs. sent: chunks by kind of text. moves: what else changes,
    besides `requests_started_total`.
    """

    id: str
    outcome: str
    given: list[dict[str, Any]]
    sent: dict[str, int]
    moves: dict[str, int] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    worker: dict[str, Any] = field(default_factory=dict)
    leave_at: int | None = None
    unread: int = 0  # of `given`: the engine was ended first, or the output is no text


def both(one, other):
    return list(itertools.chain.from_iterable(zip(one, other, strict=True)))


LOWEST = {"delays": MERGE_DELAYS["lowest"]}
BROKEN = {"parsers": BrokenParsers()}
ENGINE_ERROR = {"index": 0, "token_ids": [], "finish_reason": "error: out of memory"}
REASONING_IDS = tokens(REASONING_CALL["output"])
CASES = [
    # The last token has no text, only the finish.
    Case(
        "a chunk a token",
        "finished",
        outputs(IDS),
        {"content": len(IDS) - 1, "none": 1},
        worker=LOWEST,
    ),
    Case("merged", "finished", outputs(IDS), {"content": 2}),
    Case("two tokens an output", "finished", outputs(IDS, group=2), {"content": 2}),
    Case("no stream", "finished", outputs(IDS), {"none": 2}, fields={"stream": False}),
    Case(
        "two choices",
        "finished",
        both(outputs(IDS), outputs(IDS, 1)),
        {"content": 4},
        fields={"n": 2},
    ),
    Case("a stop string", "finished", outputs(IDS), {"content": 2}, fields={"stop": [" four"]}),
    Case(
        "reasoning, then a call",
        "finished",
        outputs(REASONING_IDS),
        {"reasoning": 2},
        {"tool_calls_total qwen3+hermes complete": 1},
        fields={"parser": parser_request(REASONING_CALL)},
        worker={"parsers": HERMES},
    ),
    Case(
        "calls",
        "finished",
        outputs(CALL_IDS),
        {"tools": 2},
        {"tool_calls_total qwen3+hermes complete": 2},
        fields=WITH_TOOLS,
        worker={"parsers": HERMES},
    ),
    Case(
        "the client leaves",
        "cancelled",
        outputs(IDS),
        {"content": 1},
        leave_at=1,
        unread=len(IDS) - 2,
    ),
    Case("it leaves with the last chunk", "finished", outputs(IDS), {"content": 2}, leave_at=2),
    Case(
        "the engine says so",
        "cancelled",
        outputs(IDS[:3], finish_reason="cancelled"),
        {"content": 2},
    ),
    Case("the engine stops", "cancelled", outputs(IDS)[:3], {"content": 2}),
    Case("the engine fails", "failed", [*outputs(IDS)[:3], ENGINE_ERROR], {"content": 2}, unread=1),
    Case(
        "a parser raises",
        "finished",
        outputs(IDS),
        {"content": 2},
        {"parser_errors_total broken": 1},
        worker=BROKEN,
    ),
    Case(
        "and the request fails",
        "failed",
        outputs(IDS),
        {"none": 1},  # the tokens before
        {"parser_errors_total broken": 1},
        worker=BROKEN | {"on_error": "fail"},
        unread=len(IDS) - 4,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_request_moves_these(case):
    metrics = WorkerMetrics()
    worker = build_worker(metrics, **case.worker)
    before = exposed(metrics)
    asyncio.run(answer(worker, case.given, case.leave_at, **case.fields))
    read = case.given[: len(case.given) - case.unread]
    expected = {
        "requests_started_total": 1,
        f"requests_total {case.outcome}": 1,
        "engine_outputs_total": len(read),
        "engine_tokens_total": sum(len(output["token_ids"]) for output in read),
        "chunks_total": sum(case.sent.values()),
        **{f"chunk_wait_seconds_count {kind}": count for kind, count in case.sent.items()},
        **case.moves,
    }
    assert moved(before, exposed(metrics)) == {name: by for name, by in expected.items() if by}


class RaisesAt:
    """HERMES, but raises at its token number `at`."""

    name = "qwen3+hermes"
    shows_special_tokens = HERMES.shows_special_tokens
    breaks_before_calls = HERMES.breaks_before_calls

    def __init__(self, at):
        self._at = at

    def __call__(self, request, prompt_token_ids):
        parser = HERMES(request, prompt_token_ids)
        feed, numbers = parser.feed, itertools.count(1)

        def feed_or_raise(text, token_ids=()):
            if next(numbers) == self._at:
                raise KeyError("boom")
            return feed(text, token_ids)

        return SimpleNamespace(
            token_aligned=True,
            in_reasoning=False,
            reasoning_tokens=0,
            dropped_calls=0,
            held=None,
            reads_together=lambda token_ids: len(token_ids) == 1,
            feed=feed_or_raise,
            finish=parser.finish,
        )


# tokens of two calls, their finish, fields, at which token the parser raises, outcomes
CALL_CASES = [
    (45, "stop", {}, None, {"complete": 2}),
    (45, "stop", {"parallel_tool_calls": False}, None, {"complete": 1}),
    (39, "length", {}, None, {"complete": 1, "cut": 1}),
    (39, "stop", {}, None, {"complete": 1, "cut": 1}),  # the model stopped within it
    (45, "stop", {"tool_choice": "none"}, None, {"dropped": 2}),
    (26, "length", {}, None, {"complete": 1, "cut": 1}),  # in the name of the second
    (21, "length", {}, None, {"cut": 1}),  # as it ends, which not all parsers say
    (39, "cancelled", {}, None, {"complete": 1, "cut": 1}),
    (45, "stop", {}, 40, {"complete": 1, "raw": 1}),
    (
        45,
        "length",
        {},
        30,
        {"raw": 1},
    ),  # the second is text, and the first was whole: that cannot be known
    (45, "stop", {}, 3, {}),
]


@pytest.mark.parametrize(("length", "finish_reason", "fields", "raises_at", "outcomes"), CALL_CASES)
def test_tool_calls_by_outcome(length, finish_reason, fields, raises_at, outcomes):
    assert len(CALL_IDS) == 45
    metrics = WorkerMetrics()
    worker = build_worker(metrics, parsers=RaisesAt(raises_at) if raises_at else HERMES)
    request = msgspec.structs.replace(parser_request(CALLS), **fields)
    asyncio.run(
        answer(worker, outputs(CALL_IDS[:length], finish_reason=finish_reason), parser=request)
    )
    counted = exposed(metrics)
    found = {
        outcome: counted[f"tool_calls_total qwen3+hermes {outcome}"]
        for outcome in ("complete", "cut", "malformed", "raw", "dropped")
    }
    assert {outcome: count for outcome, count in found.items() if count} == outcomes


def test_a_malformed_call_is_counted_by_kind_and_logged_without_its_words(caplog):
    metrics = WorkerMetrics()
    output = '<tool_call>{"name": "get_weather", "arguments": {"town: "Bergen"}}</tool_call>'
    ids = [*tokens(output), *tokens("<|im_end|>")]
    with caplog.at_level("INFO", "backedge"):
        asyncio.run(answer(build_worker(metrics, HERMES), outputs(ids), **WITH_TOOLS))
    counted = exposed(metrics)
    assert counted["malformed_calls_total qwen3+hermes invalid_json"] == 1
    assert counted["tool_calls_total qwen3+hermes malformed"] == 1
    [line] = [each.getMessage() for each in caplog.records if "stays open" in each.getMessage()]
    assert line.endswith("of parser qwen3+hermes stays open: invalid_json")
    assert "Bergen" not in caplog.text
    assert "get_weather" not in caplog.text


def test_a_worker_that_guesses_counts_no_malformed_call():
    metrics = WorkerMetrics()
    settings = PostprocessSettings(delays=LATE, on_error="fail", malformed_calls="repair")
    backend = InlineBackend(tiny_detokenizers(), HERMES, settings, metrics.report)
    worker = WorkerPostprocessor(backend, metrics)
    output = '<tool_call>{"name": "get_weather", "arguments": {"city": }}</tool_call>'
    ids = [*tokens(output), *tokens("<|im_end|>")]
    asyncio.run(answer(worker, outputs(ids), **WITH_TOOLS))
    counted = exposed(metrics)
    assert counted["malformed_calls_total qwen3+hermes invalid_json"] == 0
    assert counted["tool_calls_total qwen3+hermes complete"] == 1


def test_requests_in_flight_and_the_oldest_token():
    metrics = WorkerMetrics()
    worker = build_worker(metrics)

    async def run():
        stop = asyncio.Event()

        async def paused():
            for output in outputs(IDS)[:3]:
                yield output
            await stop.wait()

        stream = worker.stream(paused(), params(), [], Running())
        await anext(stream)
        await asyncio.sleep(0.05)
        during = exposed(metrics)
        stop.set()
        async for _ in stream:
            pass
        return during

    during = asyncio.run(run())
    after = exposed(metrics)
    assert (during["requests_in_flight"], after["requests_in_flight"]) == (1, 0)
    assert 0.0 <= during["oldest_wait_seconds"] < 5.0
    assert after["oldest_wait_seconds"] == 0.0


@pytest.mark.parametrize("stop", [[], ["never"]])
def test_few_requests_are_measured(stop):
    metrics = WorkerMetrics()
    worker = build_worker(metrics)
    measured = []

    async def run():
        before = exposed(metrics)
        for number in range(1, MEASURED_ONE_IN + FIRST_MEASURED + 1):
            await answer(worker, outputs(IDS), stop=stop)
            if (after := exposed(metrics))["stage_tokens_total parse"] > before[
                "stage_tokens_total parse"
            ]:
                measured.append(number)
            before = after

    asyncio.run(run())
    counted = exposed(metrics)
    assert measured == [FIRST_MEASURED, FIRST_MEASURED + MEASURED_ONE_IN]
    for stage in STAGES:
        is_done = stage != "stop" or bool(stop)
        assert counted[f"stage_tokens_total {stage}"] == 2 * len(IDS) * is_done
        assert (counted[f"stage_seconds_total {stage}"] > 0) == is_done


@pytest.mark.parametrize(
    ("waited_s", "first"),
    [(0.0, "0.001"), (0.001, "0.001"), (0.0011, "0.002"), (4.0, "5.0"), (5.1, "+Inf")],
)
def test_waits_fall_into_buckets(waited_s, first):
    metrics = WorkerMetrics()
    metrics.count_chunk(ScheduledChunk(0, [1], [ChoiceDelta(0)], waited_s), streams=True)
    counted = exposed(metrics)
    delays = [*map(str, WAIT_BUCKETS_S), "+Inf"]
    found = [counted[f"chunk_wait_seconds_bucket none {bound}"] for bound in delays]
    assert found == [float(position >= delays.index(first)) for position in range(len(delays))]
    assert counted["chunk_wait_seconds_sum none"] == waited_s


def test_the_pool_says_the_same_and_how_it_is():
    metrics = WorkerMetrics()
    words = "one two three four five"

    async def test(pool):
        metrics.pool = pool
        worker = WorkerPostprocessor(pool, metrics)
        before = exposed(metrics)
        slow = asyncio.ensure_future(answer(worker, outputs(tokens(f"SLOW {words}"))))
        during = []
        while not slow.done():
            during.append(exposed(metrics))
            await asyncio.sleep(0.01)
        await answer(worker, outputs(tokens(words), finish_reason="length"))
        await answer(worker, outputs(tokens(f"LOOP {words}")))
        await pool.ready()
        return before, during, exposed(metrics)

    (before, during, after), _ = in_pool(test, processes=1, slow_s=0.2, deadline_s=1.0)
    given = sum(len(tokens(text)) for text in (f"SLOW {words}", words, f"LOOP {words}"))
    assert before["pool_processes serving"] == 1
    for gauge in ("requests_in_flight", "pool_depth", "oldest_wait_seconds"):
        assert max(sample[gauge] for sample in during) > 0
    by = moved(before, after)
    assert by.pop("chunks_total") >= 3
    assert {name: count for name, count in by.items() if not name.startswith("chunk_wait")} == {
        "requests_started_total": 3,
        "requests_total finished": 3,
        "engine_tokens_total": given,
        "engine_outputs_total": given,
        "pool_deadline_kills_total": 1,
        "pool_replays_total": 1,
        **{
            f"stage_tokens_total {stage}": len(tokens(words)) for stage in STAGES if stage != "stop"
        },
    }
    assert all(after[f"stage_seconds_total {stage}"] > 0 for stage in STAGES if stage != "stop")


LABELS = {
    "outcome": {
        *("finished", "cancelled", "failed"),
        *("complete", "cut", "malformed", "raw", "dropped"),
        *("hit", "miss", "open"),
    },
    "source": {"cache", "tokenizer"},
    "result": {
        *("written", "overload", "unwritable", "too_long", "failed"),
        *("kept", "restored", "spliced", "fetched"),
    },
    "reason": {*REASONS, *get_args(CallFault)},
    "kind": {"content", "reasoning", "tools", "none", *get_args(Malformation)},
    "stage": set(STAGES),
    "state": {"serving", "starting"},
    "parser": {"none"},
    "engine": {"none"},
    "version": {importlib.metadata.version("backedge")},
    "le": {*map(str, WAIT_BUCKETS_S), "+Inf"},
}


def families():
    registry = CollectorRegistry()
    registry.register(WorkerMetrics())
    registry.register(FrontendMetrics(PromptCache(), None, TurnStore(0), LocalParsing()))
    return list(registry.collect())


def test_label_values_are_few_and_there_from_the_start():
    found: dict[str, set[str]] = {}
    for family in families():
        for sample in family.samples:
            for label, value in sample.labels.items():
                found.setdefault(label, set()).add(value)
    assert found == LABELS


def test_metrics_are_collected_while_requests_come_and_go():
    metrics = WorkerMetrics()
    worker = build_worker(metrics)

    async def load():
        for _ in range(30):
            await asyncio.gather(*(answer(worker, outputs(IDS)) for _ in range(20)))

    async def run():
        loading = asyncio.create_task(asyncio.to_thread(asyncio.run, load()))
        while not loading.done():
            exposed(metrics)
            await asyncio.sleep(0)
        await loading

    asyncio.run(run())
    counted = exposed(metrics)
    assert counted["requests_started_total"] == counted["requests_total finished"] == 600
