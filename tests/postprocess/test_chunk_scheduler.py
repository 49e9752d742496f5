"""Merged deltas against those of one token at a time, with a clock of the test's own."""

from __future__ import annotations

import itertools
import math
from math import inf
from typing import Any

import pytest
from backedge.postprocess import Chunk, Postprocessor
from backedge.postprocess.chunk_scheduler import (
    ENGINE_PART,
    ChunkScheduler,
    ScheduledChunk,
    engine_wait_s,
)
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import Usage
from backedge.postprocess.settings import MERGE_DELAYS, MergeDelays
from hypothesis import given
from hypothesis import strategies as st

from tests.postprocess.scheduled import (
    BALANCED,
    END,
    TICK,
    Arrival,
    Case,
    allowed_types,
    cases,
    check_whole,
    delays,
    gaps,
    normal,
    parse_engine_output,
    played,
    scheduling_settings,
    source,
)
from tests.postprocess.test_transcripts import build_parsers
from tests.support import (
    TRANSCRIPTS,
    cut,
    encode,
    params,
    parser_request,
    tiny_detokenizers,
)


@scheduling_settings
@given(
    case=cases(),
    delays=delays,
    moments=st.lists(st.booleans(), min_size=1, max_size=7),
    gap_list=gaps,
)
def test_the_deltas_add_up_to_those_of_one_token_at_a_time(
    case: Case, delays: MergeDelays, moments: list[bool], gap_list: list[int]
) -> None:
    """Whenever `take` is called: never before the end, at any moment, or at every due."""
    scheduler = ChunkScheduler(case.post(), delays)
    out: list[ScheduledChunk] = []
    calls, later = itertools.cycle(moments), itertools.cycle(gap_list)
    for arrival in case.arrivals:
        scheduler.add(arrival.chunk, arrival.at, arrival.age)
        if next(calls):
            now = arrival.at + next(later) * TICK
            is_due = scheduler.due <= now
            scheduled = scheduler.take(now)
            assert bool(scheduled) == is_due
            assert scheduler.due > now
            out += scheduled
    out += scheduler.take(END)
    assert scheduler.due == inf
    check_whole(case, out)
    assert all(scheduled.waited_s >= 0 for scheduled in out)


@scheduling_settings
@given(case=cases(), delays=delays)
def test_nothing_waits_beyond_its_bound(case: Case, delays: MergeDelays) -> None:
    sent = played(ChunkScheduler(case.post(), delays), case.arrivals)
    check_whole(case, [out.scheduled for out in sent])
    for index in range(case.params.n):
        shadow, before, opened = case.post(), 0, not case.params.stream
        for number, out in enumerate(out for out in sent if out.scheduled.index == index):
            held = [
                arrival
                for arrival in case.arrivals[before : out.arrived]
                if arrival.chunk.index == index
            ]
            kinds = [
                {kind for delta in shadow.feed(arrival.chunk) for kind in allowed_types(delta)}
                for arrival in held
            ]
            waits = case.params.annotates_tokens  # for the delta with their ids or logprobs
            assert (
                waits
                or [token_id for arrival in held for token_id in arrival.chunk.token_ids]
                == out.scheduled.token_ids
            )
            if case.params.stream:
                check_texts(delays, out.now, held, kinds, opened=opened)
            elif not number:
                assert out.now == held[0].at, "without a stream the first tokens go at once"
            else:
                assert bool(out.scheduled.deltas) == out.scheduled.finished
            if not waits and not (case.params.stream and kinds[0]):
                assert not late(out.now, held[0], delays.tokens)
            if out.scheduled.finished:
                assert out.now == held[-1].at, "the finish never waits"
            before, opened = out.arrived, opened or bool(out.scheduled.deltas)


def check_texts(
    delays: MergeDelays, now: float, held: list[Arrival], kinds: list[set[str]], *, opened: bool
) -> None:
    """Check when text leaves. kinds: of text that each chunk completes. opened: not the first."""
    for arrival, texts in zip(held, kinds, strict=True):
        for kind in texts:
            assert not late(now, arrival, getattr(delays, kind) if opened else 0.0), kind


def late(now: float, arrival: Arrival, bound: float) -> bool:
    """Whether `arrival` has waited for longer than its delay, its age included."""
    return now > max(arrival.at, arrival.at - arrival.age + bound)


@scheduling_settings
@given(case=cases(stream=True))
def test_lowest_never_merges(case: Case) -> None:
    """Every chunk that gives text goes out at once, as it would without scheduler."""
    post = case.post()
    expected = [
        (arrival.at, [normal(delta) for delta in deltas])
        for arrival in case.arrivals
        if (deltas := post.feed(arrival.chunk))
    ]
    outs = played(ChunkScheduler(case.post(), MERGE_DELAYS["lowest"]), case.arrivals)
    sent = [
        (out.now, [normal(delta) for delta in out.scheduled.deltas])
        for out in outs
        if out.scheduled.deltas
    ]
    assert sent == expected


@pytest.mark.parametrize("bound", [0.03, 0.1, 0.5])
@pytest.mark.parametrize("gap", [0.005, 0.02, 0.05])
def test_as_many_chunks_as_the_bound_says(bound: float, gap: float) -> None:
    """A delay begins with the first token that waits: chunks are a delay and a token apart."""
    scheduler = ChunkScheduler(
        Postprocessor(params(), tiny_detokenizers()), MergeDelays(content=bound)
    )
    tokens = [
        Arrival(number * gap, 0.0, Chunk(token_ids=encode("a")))
        for number in range(round(10 / gap))
    ]
    sent = played(scheduler, tokens)
    assert 10 / (bound + gap) - 1 <= len(sent) <= 1.25 * 10 / bound + 2
    assert (
        max(after.now - before.now for before, after in itertools.pairwise(sent))
        <= bound + gap + TICK
    )
    assert all(out.scheduled.waited_s <= bound + TICK for out in sent)


@scheduling_settings
@given(case=cases(), delays=delays, data=st.data())
def test_flush_makes_everything_due(case: Case, delays: MergeDelays, data: st.DataObject) -> None:
    """The engine has stopped somewhere without a finish: what can be shown of it is."""
    before = case.arrivals[: data.draw(st.integers(0, len(case.arrivals)))]
    scheduler, post = ChunkScheduler(case.post(), delays), case.post()
    deltas = [delta for arrival in before for delta in post.feed(arrival.chunk)]
    now = before[-1].at if before else 0.0
    out: list[ScheduledChunk] = []
    for arrival in before:
        scheduler.add(arrival.chunk, arrival.at, arrival.age)
        if data.draw(st.booleans()):
            out += scheduler.take(arrival.at)
    scheduler.flush(now)
    assert scheduler.due in (now, inf)
    out += scheduler.take(now)
    assert scheduler.due == inf
    assert scheduler.take(END) == []
    scheduler.flush(now)
    assert scheduler.due == inf, "a second flush finds nothing"
    for index in range(case.params.n):
        ours = [delta for scheduled in out for delta in scheduled.deltas if delta.index == index]
        theirs = [delta for delta in deltas if delta.index == index]
        assert [normal(aggregate_deltas(parts)) for parts in (ours,) if parts] == [
            normal(aggregate_deltas(parts)) for parts in (theirs,) if parts
        ]
        token_ids = [
            token_id
            for scheduled in out
            if scheduled.index == index
            for token_id in scheduled.token_ids
        ]
        fed = [
            token_id
            for arrival in before
            if arrival.chunk.index == index
            for token_id in arrival.chunk.token_ids
        ]
        assert token_ids == fed or post.choices[index].ended_early or case.params.annotates_tokens
        assert token_ids == fed[: len(token_ids)]


@scheduling_settings
@given(case=cases(), delays=delays, data=st.data())
def test_forget_drops_what_another_process_has_sent(
    case: Case, delays: MergeDelays, data: st.DataObject
) -> None:
    """As in the pool: a second process reads all again and forgets what the client has got."""
    died_at = data.draw(st.integers(0, len(case.arrivals)))
    first, second = (ChunkScheduler(case.post(), delays) for _ in range(2))
    out: list[ScheduledChunk] = []
    added, seen = [0] * case.params.n, [0] * case.params.n
    for arrival in case.arrivals[:died_at]:
        first.add(arrival.chunk, arrival.at, arrival.age)
        added[arrival.chunk.index] += 1
        for scheduled in first.take(arrival.at):
            seen[scheduled.index] = added[scheduled.index]
            out.append(scheduled)
    done = [0] * case.params.n
    for arrival in case.arrivals:
        index = arrival.chunk.index
        second.add(arrival.chunk, arrival.at, arrival.age)
        done[index] += 1
        if done[index] == seen[index]:
            second.forget(index)
            assert second.take(math.nextafter(second.due, -math.inf)) == []
        if all(now >= before for now, before in zip(done, seen, strict=True)):
            out += second.take(arrival.at)
    out += second.take(END)
    check_whole(case, out)


@scheduling_settings
@given(case=cases(n=1, logprobs=None), delays=delays, data=st.data())
def test_a_migrated_request_goes_on(case: Case, delays: MergeDelays, data: st.DataObject) -> None:
    """What the worker that died has sent, and what the next one sends, add up."""
    token_ids, (reason,) = case.tokens[0], case.reasons
    sent = data.draw(st.integers(1, len(token_ids) - 1)) if len(token_ids) > 1 else 0
    first, second = case.post(), ChunkScheduler(case.post(), delays)
    deltas = first.feed(parse_engine_output(0, token_ids, 0, sent, None))
    second.resume(token_ids[:sent], 3.0)
    wholes, usage = case.one_by_one
    if first.finished:
        assert second.due == 3.0, "the client may not have got the finish"
        (scheduled,) = second.take(3.0)
        assert (scheduled.finished, scheduled.ended_early, scheduled.token_ids) == (True, True, [])
        (finish,) = scheduled.deltas
        assert (finish.finish_reason, finish.stop_reason) == (
            wholes[0].finish_reason,
            wholes[0].stop_reason,
        )
        assert allowed_types(finish) == [] or not case.params.stream
        assert scheduled.usage is not None
        assert scheduled.usage.completion_tokens == usage.completion_tokens
        second.add(parse_engine_output(0, token_ids, sent, len(token_ids), reason), 4.0)
        assert second.due == inf, "nothing follows the finish"
        return
    assert second.due == inf, "nothing of it is sent twice"
    pieces = cut(range(sent, len(token_ids)), data.draw(st.sets(st.integers(1, 700), max_size=9)))
    rest = [
        Arrival(
            4.0 + number,
            0.0,
            parse_engine_output(
                0, token_ids, piece[0], piece[-1] + 1, None if piece != pieces[-1] else reason
            ),
        )
        for number, piece in enumerate(pieces)
    ]
    out = [sent.scheduled for sent in played(second, rest)]
    if case.params.stream:
        deltas += [delta for scheduled in out for delta in scheduled.deltas]
    else:
        deltas = out[-1].deltas
    assert normal(aggregate_deltas(deltas)) == normal(wholes[0])
    assert [bool(delta.finish_reason) for delta in deltas] == [False] * (len(deltas) - 1) + [True]
    last = out[-1].usage
    assert last is not None
    assert (last.completion_tokens, last.reasoning_tokens) == (
        usage.completion_tokens,
        usage.reasoning_tokens,
    )


@pytest.mark.parametrize(
    ("fields", "kind", "part"),
    [
        ({}, None, 0.1),
        ({}, "content", 0.1),
        ({}, "reasoning", 0.2),
        ({}, "tools", 0.5),
        ({}, "finish", 0.1),
        ({"stream": False}, None, 1.0),
        ({"stream": False}, "tools", 1.0),
        ({"stop": ["x"]}, "tools", 0.0),
        ({"stop": ["x"], "stream": False}, None, 0.0),
    ],
)
def test_how_long_the_engine_may_collect(fields: dict[str, Any], kind: Any, part: float) -> None:
    assert engine_wait_s(params(**fields), BALANCED, kind) == ENGINE_PART * part


def test_the_engine_may_collect_as_long_as_the_text_that_came_last_may_wait() -> None:
    name = "reasoning_call"
    prompt_ids, output, _ = source(name)
    request = params(parser=parser_request(TRANSCRIPTS[name]))
    scheduler = ChunkScheduler(
        Postprocessor(
            request, tiny_detokenizers(), build_parsers("linear"), prompt_token_ids=prompt_ids
        ),
        BALANCED,
    )
    waits = []
    for token_id in output:
        scheduler.add(Chunk(token_ids=[token_id]), 0.0)
        waits.append(scheduler.engine_wait_s(0) / ENGINE_PART)
    assert [wait for wait, _ in itertools.groupby(waits)] == [0.1, 0.2, 0.5]


def test_what_follows_the_end_of_a_choice_is_dropped() -> None:
    scheduler = ChunkScheduler(
        Postprocessor(params(stop=["b"], n=2), tiny_detokenizers()), BALANCED
    )
    scheduler.add(Chunk(token_ids=encode("a")), 0.0)
    scheduler.add(Chunk(token_ids=encode("b")), 1.0)
    (scheduled,) = scheduler.take(1.0)
    assert (scheduled.index, scheduled.finished, scheduled.ended_early, scheduled.usage) == (
        0,
        True,
        True,
        None,
    )
    scheduler.add(Chunk(token_ids=encode("c"), finish_reason="length"), 2.0)
    scheduler.flush(2.0)
    assert scheduler.due == inf
    scheduler.add(Chunk(index=1, token_ids=encode("b")), 3.0)
    (scheduled,) = scheduler.take(3.0)
    assert (scheduled.index, scheduled.usage) == (1, Usage(0, 3))


def test_forget_keeps_what_the_next_delta_is_to_carry() -> None:
    """The first process has sent "a"; half a character waits for the delta with its id."""
    token_ids = encode("aж")
    assert len(token_ids) == 3
    request = params(return_token_ids=True)
    first, second = (
        ChunkScheduler(Postprocessor(request, tiny_detokenizers()), MergeDelays()) for _ in range(2)
    )
    sent: list[ScheduledChunk] = []
    for now, token_id in enumerate(token_ids[:2]):
        first.add(Chunk(token_ids=[token_id]), 2.0 * now)
        sent += first.take(2.0 * now + 1)
        second.add(Chunk(token_ids=[token_id]), 2.0 * now)
    assert [scheduled.token_ids for scheduled in sent] == [token_ids[:1]]
    second.forget(0)
    second.add(Chunk(token_ids=token_ids[2:], finish_reason="length"), 4.0)
    sent += second.take(4.0)
    assert (
        aggregate_deltas([delta for scheduled in sent for delta in scheduled.deltas]).token_ids
        == token_ids
    )


@pytest.mark.parametrize("index", [-3, 2])
def test_a_choice_that_the_request_does_not_have(index: int) -> None:
    scheduler = ChunkScheduler(Postprocessor(params(n=2), tiny_detokenizers()), BALANCED)
    with pytest.raises(IndexError):
        scheduler.add(Chunk(index=index, token_ids=encode("a")), 0.0)
