"""What goes out, and when."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import Sequence
from typing import Any

import pytest
from backedge.base.errors import ParserFailedError
from backedge.base.json_types import JsonObject
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.engine_output import ABORTS
from backedge.postprocess.messages import KEY
from backedge.postprocess.settings import MERGE_DELAYS, MergeDelays
from backedge.worker.request_stream import WorkerPostprocessor
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import encode, params, tiny_detokenizers
from tests.worker.pool.pools import in_pool
from tests.worker.scripted import (
    IDS,
    LOWEST,
    NEVER,
    SECOND,
    STALL,
    BrokenParsers,
    CountingBackend,
    Engine,
    Sent,
    Step,
    answer,
    content,
    count_tokens,
    deltas,
    output,
    run_in_virtual_time,
)

HALF = encode("ж")
assert len(HALF) == 2


# Script, what text goes out, and between when and when (seconds).
TIMES: dict[str, tuple[list[Step], list[tuple[str, float, float]]]] = {
    "what waits goes out while the engine stalls": (
        [output("a"), 0.1, output("b"), output("c"), 20.0, output("d", finish_reason="stop")],
        [("a", 0, 0), ("bc", 0.1, 1.1), ("", 20.1, 20.1)],
    ),
    "and what follows waits anew": (
        [
            output("a"),
            0.1,
            output("b"),
            2.0,
            output("c"),
            output("d"),
            9.0,
            output("", finish_reason="stop"),
        ],
        [("a", 0, 0), ("b", 0.1, 1.1), ("cd", 2.1, 3.1), ("", 11.1, 11.1)],
    ),
    "the finish never waits": (
        [output("a"), 0.1, output("b"), output("c"), output("d", finish_reason="length")],
        [("a", 0, 0), ("bcd", 0.1, 0.1)],
    ),
    "the first text never waits, whatever came before": (
        [5.0, output(HALF[:1]), 0.1, output(HALF[1:]), 0.1, output("b", finish_reason="length")],
        [("ж", 5.1, 5.1), ("b", 5.2, 5.2)],
    ),
    "half a character waits for its other half": (
        [
            output("a"),
            0.1,
            output(HALF[:1]),
            9.0,
            output(HALF[1:]),
            9.0,
            output("b", finish_reason="length"),
        ],
        [("a", 0, 0), ("ж", 9.1, 10.1), ("b", 18.1, 18.1)],
    ),
    "many outputs in one go are one chunk": (
        [*(output("a") for _ in range(50)), output("b", finish_reason="length")],
        [("a" * 50 + "b", 0, 0)],
    ),
    "an engine that ends without a finish gives all it has": (
        [output("a"), 0.1, output("b")],
        [("a", 0, 0), ("b", 0.1, 0.1)],
    ),
    "an engine that gives nothing": ([3.0], []),
    "an empty output by itself": ([output("", finish_reason="length")], [("", 0, 0)]),
}


@pytest.mark.parametrize(("script", "expected"), TIMES.values(), ids=TIMES)
def test_what_goes_out_and_when(
    script: list[Step], expected: list[tuple[str, float, float]]
) -> None:
    engine = Engine(script)
    sent = run_in_virtual_time(answer(engine, CountingBackend(SECOND)))
    texts = [part for part in sent if part.post.deltas]
    assert [content(part) for part in texts] == [text for text, _, _ in expected]
    for part, (text, earliest, latest) in zip(texts, expected, strict=True):
        assert earliest - 0.001 <= part.at <= latest + 0.001, text
    generated = [
        token_id for step in script if isinstance(step, dict) for token_id in step["token_ids"]
    ]
    assert count_tokens(sent) == generated
    assert (engine.closed, engine.aborted) == (True, [])


@pytest.mark.parametrize("stream", [True, False])
def test_tokens_without_text_wait_for_their_own_bound(stream: bool) -> None:
    """Dynamo migrates a request with the tokens it has seen."""
    script: list[Step] = [
        output("a"),
        0.1,
        output(HALF[:1]),
        9.0,
        output(HALF[1:], finish_reason="length"),
    ]
    delays = MergeDelays(content=900.0, tokens=1.0)
    first, second, last = run_in_virtual_time(
        answer(Engine(script), CountingBackend(delays), stream=stream)
    )
    assert (first.at, first.chunk["token_ids"]) == (0.0, encode("a"))
    assert (second.chunk["token_ids"], second.post.deltas) == (HALF[:1], [])
    assert 0.099 <= second.at <= 1.101
    assert last.chunk["token_ids"] == HALF[1:]


@pytest.mark.parametrize("stalls", [0, 1, 5])
def test_without_a_stream_tokens_still_come_in_time(stalls: int) -> None:
    stall: list[Step] = [0.1, output("b"), 20.0]
    script: list[Step] = [output("a"), *stall * stalls, output("c", finish_reason="stop")]
    sent = run_in_virtual_time(answer(Engine(script), CountingBackend(SECOND), stream=False))
    assert [part.at for part in sent[:1]] == [0.0]
    assert len(sent) == stalls + 2 - (not stalls)
    assert all(later.at - 20.2 * number <= 1.2 for number, later in enumerate(sent[1:-1]))
    assert [len(part.post.deltas) for part in sent] == [0] * (len(sent) - 1) + [1]
    assert aggregate_deltas(deltas(sent)).delta.content == "a" + "b" * stalls


FIELDS = {
    "completion_usage": {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8},
    "engine_data": {"prompt_token_ids": [1, 2]},
    "disaggregated_params": {"opaque": [1, {"a": None}]},
    "kv_transfer_params": {"remote": "x"},
}


@pytest.mark.parametrize("delays", [LOWEST, NEVER], ids=["lowest", "never"])
@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("name", FIELDS)
def test_what_else_the_engine_says_survives(name: str, position: int, delays: MergeDelays) -> None:
    script: list[Step] = []
    for number in range(4):
        fields = {name: FIELDS[name]} if number == position else {}
        reason = "stop" if number == 3 else None
        script += [output("a", 0, reason, log_probs=[-1.0], top_logprobs=[[]], **fields), 0.1]
    sent = run_in_virtual_time(answer(Engine(script), CountingBackend(delays)))
    assert [part.chunk[name] for part in sent if name in part.chunk] == [FIELDS[name]], (
        "once, whatever was merged"
    )
    assert not any({"log_probs", "top_logprobs"} & part.chunk.keys() for part in sent)
    assert [part.chunk.get("finish_reason") for part in sent] == [None] * (len(sent) - 1) + ["stop"]


def test_the_engines_extra_args_stay_beside_ours() -> None:
    sent = run_in_virtual_time(
        answer(
            Engine([output("a", finish_reason="length", extra_args={"theirs": 1})]),
            CountingBackend(LOWEST),
        )
    )
    assert sent[0].chunk["extra_args"].keys() == {"theirs", KEY}


ON_THE_WIRE = output("", finish_reason={"error": "out of memory"})
FAILURES: dict[str, tuple[Step, JsonObject | None]] = {
    "says so as Dynamo writes it": (ON_THE_WIRE, ON_THE_WIRE),
    "raises": (RuntimeError("out of memory"), None),
    "says so": (
        output("", finish_reason="error: out of memory"),
        output("", finish_reason="error: out of memory"),
    ),
    "says so in another form": (
        {"status": "error", "message": "oh"},
        {"status": "error", "message": "oh"},
    ),
}


@pytest.mark.parametrize(("failure", "last"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("delays", [LOWEST, SECOND, NEVER], ids=["lowest", "a second", "never"])
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("pause", [[], [0.1]], ids=["at once", "in time"])
def test_a_failure_comes_after_all_that_was_generated(
    failure: Step, last: JsonObject | None, delays: MergeDelays, before: int, pause: list[Step]
) -> None:
    engine = Engine([*[output("a"), *pause] * before, failure])
    backend = CountingBackend(delays)
    *sent, end = run_in_virtual_time(answer(engine, backend))
    assert "".join(map(content, sent)) == "a" * before
    assert end.chunk in (last, {"raised": failure})
    assert not any("finish_reason" in part.chunk for part in sent)
    assert (engine.closed, backend.closes) == (True, [1])


# What an engine must not send, and what the answer says of it.
WRONG_OUTPUTS: dict[str, tuple[JsonObject, str]] = {
    "a choice too many": (output("b", 1), "choice 1; the request has 1"),
    "a choice below none": (output("b", -1), r"\$\.index"),
    "no token": ({"index": 0, "token_ids": [-1]}, r"\$\.token_ids"),
    "no list": ({"index": 0, "token_ids": 5}, r"\$\.token_ids"),
    "no logprob": (output("b", log_probs=["x"]), r"\$\.log_probs"),
}


@pytest.mark.parametrize(("wrong", "message"), WRONG_OUTPUTS.values(), ids=WRONG_OUTPUTS)
def test_an_output_of_another_form_fails_its_request(wrong: JsonObject, message: str) -> None:
    engine, backend = Engine([output("a"), wrong, STALL]), CountingBackend(LOWEST)
    first, last = run_in_virtual_time(answer(engine, backend))
    assert content(first) == "a"
    assert re.search(f"^error: .*{message}", last.chunk["finish_reason"])
    assert (engine.aborted, backend.closes) == ([0], [1])


@pytest.mark.parametrize("delays", [LOWEST, NEVER], ids=["lowest", "never"])
def test_a_parser_that_raises_may_fail_the_request(delays: MergeDelays) -> None:
    engine = Engine([*[step for token in IDS for step in (output([token]), 0.1)], STALL])
    failures: list[ParserFailedError] = []
    backend = CountingBackend(delays, BrokenParsers(), on_error="fail", report=failures.append)
    sent = run_in_virtual_time(answer(engine, backend))
    assert sent[-1].chunk["finish_reason"].startswith("error: parser 'broken' failed")
    assert (engine.aborted, len(failures), backend.closes, engine.closed) == ([0], 1, [1], True)


def test_so_may_one_in_a_process_of_the_pool() -> None:
    """It once was due for ever, and the event loop with it."""

    def hung(*_: Any) -> None:
        raise TimeoutError("the event loop is stuck")

    async def test(pool: Any) -> list[Sent]:
        text = encode("before RAISE and after")
        engine = Engine([step for token in text for step in (output([token]), 0.01)])
        return await answer(engine, pool)

    signal.signal(signal.SIGALRM, hung)
    signal.alarm(30)
    try:
        sent, failures = in_pool(test, on_error="fail")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert sent[-1].chunk["finish_reason"].startswith("error: parser 'misbehaving' failed")
    assert len(failures) == 1


def closing_script() -> list[Step]:
    return [
        0.05,
        output("a"),
        0.05,
        output(HALF[:1]),
        output("b"),
        0.3,
        output("c"),
        5.0,
        output("d"),
        STALL,
    ]


@pytest.mark.parametrize("delays", [LOWEST, SECOND, NEVER], ids=["lowest", "a second", "never"])
@pytest.mark.parametrize("chunks", range(4))
@pytest.mark.parametrize("way", ["close", "close later", "cancel"])
def test_a_client_that_goes_away_leaves_nothing_behind(
    way: str, chunks: int, delays: MergeDelays
) -> None:
    """Behind the given number of chunks, or in the midst of waiting for one more."""
    engine, backend = Engine(closing_script()), CountingBackend(delays)

    async def run() -> None:
        stream = WorkerPostprocessor(backend).stream(engine.outputs(), params(), [], engine)
        for _ in range(chunks):
            with contextlib.suppress(TimeoutError, StopAsyncIteration):
                await asyncio.wait_for(anext(stream), 50)
        if way == "cancel":
            waiting = asyncio.ensure_future(anext(stream, None))
            await asyncio.sleep(0.02)
            waiting.cancel()
            await asyncio.wait([waiting])
        elif way == "close later":
            await asyncio.sleep(0.7)
        await stream.aclose()
        await stream.aclose()

    run_in_virtual_time(run())
    assert engine.closed == engine.started
    assert backend.closes in ([], [1])
    assert engine.started or way != "cancel"


def test_a_request_that_is_never_asked_for_starts_nothing() -> None:
    engine, backend = Engine(closing_script()), CountingBackend(LOWEST)

    async def run() -> None:
        await WorkerPostprocessor(backend).stream(engine.outputs(), params(), [], engine).aclose()

    run_in_virtual_time(run())
    assert (engine.started, backend.closes) == (False, [])


@pytest.mark.parametrize("delays", [LOWEST, SECOND], ids=["lowest", "a second"])
@pytest.mark.parametrize("pause_s", [0.0, 0.35, 3.0])
def test_a_slow_client_gets_larger_chunks(pause_s: float, delays: MergeDelays) -> None:
    """It lags by one chunk at most: nothing queues up for it."""
    script = [step for _ in range(200) for step in (output("a"), 0.05)] + [
        output("", finish_reason="length")
    ]
    sent = run_in_virtual_time(answer(Engine(script), CountingBackend(delays), pause_s=pause_s))
    assert "".join(map(content, sent)) == "a" * 200
    if pause_s:
        assert len(sent) <= 10 / pause_s + 3
    assert sent[-1].at <= 10 + pause_s + 0.001


@pytest.mark.parametrize("reason", ABORTS)
def test_an_engine_that_shuts_down_has_another_worker_go_on(reason: str) -> None:
    """vLLM ends a request as aborted, and then Dynamo's handler raises: that is no end."""
    script: list[Step] = [output("a"), 0.1, output("b", 0, reason), 0.1]
    failed = run_in_virtual_time(
        answer(Engine([*script, RuntimeError("it shuts down")]), CountingBackend(LOWEST))
    )
    assert str(failed[-1].chunk["raised"]) == "it shuts down"
    assert [delta.finish_reason for delta in deltas(failed[:-1])] == [None]
    ended = run_in_virtual_time(answer(Engine(script), CountingBackend(LOWEST)))
    assert deltas(ended)[-1].finish_reason == "length"


EARLY: dict[str, tuple[list[Step], JsonObject, list[int]]] = {
    "a stop string": (
        [output("a x b"), 0.1, output("c"), 0.1, output("", 0, "cancelled")],
        {"stop": ["x"]},
        [0],
    ),
    "the engine never says that it has ended": (
        [output("a x b"), 0.1, output("c")],
        {"stop": ["x"]},
        [0],
    ),
    "the engine ends by itself in the same output": (
        [output("a x b", 0, "length")],
        {"stop": ["x"]},
        [],
    ),
    "the engine has ended by the time": (
        [output("a x b"), output("", 0, "stop")],
        {"stop": ["x"]},
        [],
    ),
    "one of two": (
        [output("ax"), 0.1, output("b", 1), 0.1, output("", 1, "stop")],
        {"stop": ["x"], "n": 2},
        [0],
    ),
    "both": (
        [output("ax"), output("x", 1), 0.1, output("b", 1, "stop")],
        {"stop": ["x"], "n": 2},
        [0, 1],
    ),
    "without a stream": (
        [output("a x b"), 0.1, output("c"), 0.1],
        {"stop": ["x"], "stream": False},
        [0],
    ),
}


@pytest.mark.parametrize(("script", "fields", "ended"), EARLY.values(), ids=EARLY)
@pytest.mark.parametrize("delays", [LOWEST, NEVER], ids=["lowest", "never"])
def test_the_engine_is_told_once_of_a_choice_that_has_ended(
    script: list[Step], fields: JsonObject, ended: list[int], delays: MergeDelays
) -> None:
    engine = Engine(script)
    sent = run_in_virtual_time(answer(engine, CountingBackend(delays), **fields))
    assert engine.aborted == ended
    for index in range(fields.get("n", 1)):
        own = deltas(sent, index)
        assert [bool(delta.finish_reason) for delta in own] == [False] * (len(own) - 1) + [True]
    assert [part.post.usage is not None for part in sent] == [False] * (len(sent) - 1) + [True]


@pytest.mark.parametrize("tail", [[], [RuntimeError("the engine fails")]], ids=["ends", "fails"])
@pytest.mark.parametrize("stream", [True, False])
def test_the_last_finish_ends_the_response_and_the_engine_ends_later(
    stream: bool, tail: list[Step]
) -> None:
    """If the worker dies in between, Dynamo must not have another one go on."""
    engine = Engine([output("a x b"), 300.0, output("c"), *tail])

    async def ask() -> tuple[list[Sent], float, bool]:
        backend = CountingBackend(NEVER)
        sent = await answer(engine, backend, stop=["x"], stream=stream)
        ended, was_closed = asyncio.get_running_loop().time(), engine.closed
        await asyncio.sleep(301)
        return sent, ended, was_closed

    sent, ended, was_closed = run_in_virtual_time(ask())
    assert (ended, was_closed, engine.closed) == (1000.0, False, True)
    assert (sent[-1].chunk["stop_reason"], engine.aborted) == ("x", [0])


@pytest.mark.parametrize("stream", [True, False])
def test_what_a_worker_that_died_has_sent_may_be_all(stream: bool) -> None:
    """Then the engine is not asked for anything."""
    engine, backend = Engine([output("more")]), CountingBackend(NEVER)
    sent = run_in_virtual_time(
        answer(engine, backend, token_ids=IDS, stop=["three"], stream=stream)
    )
    (part,) = sent
    assert (part.chunk["finish_reason"], part.chunk["stop_reason"]) == ("stop", "three")
    assert part.chunk["token_ids"] == []
    assert (engine.started, backend.closes) == (False, [1])


@settings(max_examples=200, deadline=None, database=None)
@given(data=st.data())
def test_any_script_comes_through(data: st.DataObject) -> None:
    """However fast engine and client are, all tokens arrive in order, and one finish a choice."""
    n = data.draw(st.integers(1, 2))
    delays = data.draw(st.sampled_from([LOWEST, SECOND, NEVER, MERGE_DELAYS["balanced"]]))
    script: list[Step] = []
    generated: list[list[int]] = [[], []]
    piece = st.sampled_from(["a", "ж", " two", "", "\n"])
    for index, text, pause in data.draw(
        st.lists(st.tuples(st.integers(0, n - 1), piece, st.integers(0, 40)))
    ):
        for part in (
            [encode(text)]
            if data.draw(st.booleans())
            else [[token_id] for token_id in encode(text)]
        ):
            script.append(output(part, index, engine_data={"last": len(script)}))
            generated[index] += part
            if pause:
                script.append(pause / 20)
    last = {step["index"]: step["engine_data"] for step in script if isinstance(step, dict)}
    script += [output("", index, "length") for index in range(n)]
    engine, backend = Engine(script), CountingBackend(delays)
    stream, pause_s = data.draw(st.booleans()), data.draw(st.sampled_from([0.0, 0.03, 2.0]))
    sent = run_in_virtual_time(answer(engine, backend, pause_s=pause_s, n=n, stream=stream))
    for index in range(n):
        own = deltas(sent, index)
        assert count_tokens(sent, index) == generated[index]
        assert (aggregate_deltas(own).delta.content or "") == tiny_text(generated[index])
        assert [delta.finish_reason for delta in own] == [None] * (len(own) - 1) + ["length"]
        said = [
            part.chunk["engine_data"]
            for part in sent
            if part.chunk["index"] == index and "engine_data" in part.chunk
        ]
        assert said[-1:] == ([last[index]] if index in last else [])
    assert [part.post.usage is not None for part in sent] == [False] * (len(sent) - 1) + [True]
    assert (engine.aborted, engine.closed, backend.closes) == ([], True, [1])


def tiny_text(token_ids: Sequence[int]) -> str:
    return tiny_detokenizers()(params().detokenizer, []).feed_all(token_ids)
