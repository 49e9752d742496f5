"""Drawn requests for the chunk scheduler, and what their deltas must add up to."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import msgspec
from backedge.postprocess import Chunk, Postprocessor, PostprocessParams
from backedge.postprocess.chunk_scheduler import (
    ChunkScheduler,
    ScheduledChunk,
)
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import ChoiceDelta, EngineLogprob, Usage
from backedge.postprocess.settings import MERGE_DELAYS, MergeDelays
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.postprocess.test_transcripts import build_parsers, prompt
from tests.support import (
    TRANSCRIPTS,
    cut,
    encode,
    message,
    params,
    parser_request,
    tiny_detokenizers,
)

TICK = 1 / 1024  # times are multiples of it, so that sums of them are exact
BALANCED = MERGE_DELAYS["balanced"]
END = 1e9  # later than anything
KINDS = ("content", "reasoning", "tools")
scheduling_settings = settings(
    max_examples=200, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)


@dataclass(frozen=True)
class Arrival:
    """A chunk of the engine, when it comes, and how long its first token has waited there."""

    at: float
    age: float
    chunk: Chunk


@dataclass(frozen=True)
class Case:
    """A request, its prompt, and the engine's output; `tokens` and `reasons` are by choice."""

    params: PostprocessParams
    prompt: list[int]
    tokens: list[list[int]]
    reasons: list[str]
    arrivals: list[Arrival]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show hypothesis's examples as when how many tokens of which choice come."""
        parts = [
            f"{part.at:g} s {part.chunk.index}: {len(part.chunk.token_ids)}"
            for part in self.arrivals
        ]
        printer.text(f"{self.params} {self.reasons} {', '.join(parts)}")

    def post(self) -> Postprocessor:
        return Postprocessor(
            self.params, tiny_detokenizers(), build_parsers("linear"), prompt_token_ids=self.prompt
        )

    @functools.cached_property
    def one_by_one(self) -> tuple[list[ChoiceDelta], Usage]:
        """Each choice as a whole, and the usage, if every token is a chunk of its own."""
        post = self.post()
        wholes = []
        for index, (token_ids, reason) in enumerate(zip(self.tokens, self.reasons, strict=True)):
            deltas = []
            for position in range(len(token_ids)):
                ends = position == len(token_ids) - 1
                deltas += post.feed(
                    parse_engine_output(
                        index, token_ids, position, position + 1, reason if ends else None
                    )
                )
            wholes.append(aggregate_deltas(deltas))
        return wholes, post.usage


def parse_engine_output(
    index: int, token_ids: Sequence[int], start: int, end: int, reason: str | None
) -> Chunk:
    ids = list(token_ids[start:end])
    return Chunk(
        index=index,
        token_ids=ids,
        finish_reason=reason,
        logprobs=[-float(position) for position in range(start, end)],
        top_logprobs=[[EngineLogprob(token_id, 1, -0.5)] for token_id in ids],
        prompt_tokens=11,
        cached_tokens=5,
    )


@functools.cache
def source(name: str) -> tuple[list[int], list[int], str]:
    """Return a transcript's prompt, its output and how that ends."""
    transcript = TRANSCRIPTS[name]
    limit = transcript.get("max_tokens")
    return prompt(transcript), encode(transcript["output"])[:limit], "length" if limit else "stop"


gaps = st.lists(st.sampled_from([0, 1, 7, 30, 300, 3000]), min_size=1, max_size=9)
delays = st.sampled_from(list(MERGE_DELAYS.values())) | st.builds(
    lambda *ticks: MergeDelays(
        **dict(zip((*KINDS, "tokens"), (tick * TICK for tick in ticks), strict=True))
    ),
    *[st.sampled_from([0, 1, 20, 100, 500, 2000])] * 4,
)


stops = st.lists(st.text("aeint ,.", min_size=1, max_size=3), max_size=2)


@st.composite
def cases(draw: st.DrawFn, /, n: int | None = None, **fields: Any) -> Case:
    name = draw(st.sampled_from(list(TRANSCRIPTS)))
    prompt_ids, output, reason = source(name)
    n = n or draw(st.integers(1, 2))
    other = draw(st.integers(1, len(output)))  # where the second choice ends, by its limit
    tokens, reasons = [output, output[:other]][:n], [reason, "length"][:n]
    drawn = {
        "stream": draw(st.booleans()),
        "logprobs": draw(st.sampled_from([None, 0, 1])),
        "return_token_ids": draw(st.booleans()),
        "continuous_usage_stats": draw(st.booleans()),
        "stop": TRANSCRIPTS[name].get("stop")
        or draw(st.lists(st.text("aeint ,.", min_size=1, max_size=3), max_size=2)),
        "min_tokens": draw(st.sampled_from([0, 0, 20])),
    }
    request = params(n=n, parser=parser_request(TRANSCRIPTS[name]), **drawn | fields)
    return Case(request, prompt_ids, tokens, reasons, draw(arrivals(tokens, reasons)))


@st.composite
def arrivals(draw: st.DrawFn, tokens: list[list[int]], reasons: list[str]) -> list[Arrival]:
    """Return the chunks of all choices, cut, mixed and timed in any way."""
    parts = []
    for index, (token_ids, reason) in enumerate(zip(tokens, reasons, strict=True)):
        cuts = draw(st.just(range(1, 1000)) | st.sets(st.integers(1, len(token_ids)), max_size=30))
        edges = [0, *itertools.accumulate(map(len, cut(token_ids, cuts)))]
        last = len(edges) - 1
        whole = [
            parse_engine_output(index, token_ids, start, end, reason if number == last else None)
            for number, (start, end) in enumerate(itertools.pairwise(edges), 1)
        ]
        if draw(st.booleans()):  # as some engines do, the finish comes by itself
            whole[-1] = msgspec.structs.replace(whole[-1], finish_reason=None)
            whole.append(
                parse_engine_output(index, token_ids, len(token_ids), len(token_ids), reason)
            )
        parts.append(whole)
    turns = itertools.cycle(draw(st.lists(st.booleans(), min_size=1, max_size=8)))
    steps = itertools.cycle(draw(gaps))
    aged = itertools.cycle(draw(st.lists(st.booleans(), min_size=1, max_size=3)))
    at = draw(st.sampled_from([0.0, 1000.0]))
    mixed = []
    while any(parts):
        wanted = parts[0] if next(turns) or not parts[-1] else parts[-1]
        gap = next(steps) * TICK
        at += gap
        mixed.append(Arrival(at, gap / 2 if next(aged) else 0.0, (wanted or parts[-1]).pop(0)))
    return mixed


def normal(delta: ChoiceDelta) -> dict[str, Any]:
    """Return all of a choice that does not depend on chance: ids of calls do."""
    ids = [call.id is not None for call in delta.delta.tool_calls]
    rest = {"stop": delta.stop_reason, "logprobs": delta.logprobs, "token_ids": delta.token_ids}
    return {**message(delta), **rest, "index": delta.index, "role": delta.delta.role, "ids": ids}


def allowed_types(delta: ChoiceDelta) -> list[str]:
    texts = {
        "content": delta.delta.content,
        "reasoning": delta.delta.reasoning_content,
        "tools": delta.delta.tool_calls or None,
    }
    return [kind for kind, text in texts.items() if text is not None]


@dataclass(frozen=True)
class Sent:
    """A chunk that left: when, and after how many arrivals of the request."""

    now: float
    arrived: int
    scheduled: ScheduledChunk


def played(scheduler: ChunkScheduler, arrivals: Sequence[Arrival]) -> list[Sent]:
    """Take at every due; return what goes out."""
    sent: list[Sent] = []
    for arrived, arrival in enumerate(arrivals):
        sent += dues(scheduler, arrival.at, arrived)
        scheduler.add(arrival.chunk, arrival.at, arrival.age)
        sent += [
            Sent(arrival.at, arrived + 1, scheduled) for scheduled in scheduler.take(arrival.at)
        ]
        assert scheduler.due > arrival.at
    return sent + list(dues(scheduler, inf, len(arrivals)))


def dues(scheduler: ChunkScheduler, before: float, arrived: int) -> Iterator[Sent]:
    """Take whatever becomes due before a moment, exactly then."""
    while (now := scheduler.due) < before:
        yield from (Sent(now, arrived, scheduled) for scheduled in scheduler.take(now))
        assert scheduler.due > now, "what take leaves would be due for ever"


def check_whole(case: Case, out: Sequence[ScheduledChunk]) -> None:
    """Check what the client gets of each choice, and the usage at the finish."""
    wholes, usage = case.one_by_one
    for index, whole in enumerate(wholes):
        parts = [scheduled for scheduled in out if scheduled.index == index]
        deltas = [delta for scheduled in parts for delta in scheduled.deltas]
        assert normal(aggregate_deltas(deltas)) == normal(whole)
        assert [delta.delta.role for delta in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
        assert [bool(delta.finish_reason) for delta in deltas] == [False] * (len(deltas) - 1) + [
            True
        ]
        assert [scheduled.finished for scheduled in parts] == [False] * (len(parts) - 1) + [True]
        token_ids = [token_id for scheduled in parts for token_id in scheduled.token_ids]
        assert token_ids == case.tokens[index][: len(token_ids)], "in order, none left out"
        if parts[-1].ended_early:
            assert len(token_ids) >= len(aggregate_deltas(deltas).token_ids or ())
        else:
            assert token_ids == case.tokens[index], "complete"
        if case.params.stream:
            assert all(len(allowed_types(delta)) <= 1 for delta in deltas)
        else:
            assert len(deltas) == 1
    assert [scheduled.usage for scheduled in out][-1] == usage
    if not case.params.continuous_usage_stats:
        assert [scheduled.usage for scheduled in out[:-1]] == [None] * (len(out) - 1)
