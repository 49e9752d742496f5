"""The backend in this process: a stream for each request."""

from __future__ import annotations

from math import inf

import pytest
from backedge.parsers.passthrough import PassthroughParsers
from backedge.postprocess import Chunk
from backedge.postprocess.chunk_scheduler import ChunkScheduler
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.settings import MERGE_DELAYS, PostprocessSettings
from backedge.worker.backend import InlineBackend, NewRequest

from tests.support import encode, params, tiny_detokenizers
from tests.worker.scripted import BrokenParsers

TEXT = "one, two, three"
IDS = encode(TEXT)


LOWEST = PostprocessSettings(delays=MERGE_DELAYS["lowest"])


def start(token_ids: list[int], prompt_length: int = 0, clock: bool = False) -> ChunkScheduler:
    backend = InlineBackend(tiny_detokenizers(), PassthroughParsers(), LOWEST)
    ticks = iter(range(10**6))
    ticking = (lambda: float(next(ticks))) if clock else None
    new = NewRequest(params(prompt_length=prompt_length), token_ids, 0.0, clock=ticking)
    return backend.start(new)


def finish(stream: ChunkScheduler, token_ids: list[int]) -> str | None:
    """Feed the rest of a request; return its text."""
    deltas = []
    for number, token_id in enumerate(token_ids, 1):
        reason = "length" if number == len(token_ids) else None
        stream.add(Chunk(token_ids=[token_id], finish_reason=reason), float(number))
        deltas += [delta for part in stream.take(inf) for delta in part.deltas]
    return aggregate_deltas(deltas).delta.content


def test_a_request_from_its_first_token() -> None:
    stream = start([1, 2], prompt_length=2)
    assert (stream.due, stream.oldest, stream.idle) == (inf, inf, True)
    assert finish(stream, IDS) == TEXT


@pytest.mark.parametrize("died_at", range(1, len(IDS)))
def test_the_tokens_of_another_worker_are_not_sent_again(died_at: int) -> None:
    stream = start([1, 2, *IDS[:died_at]], prompt_length=2)
    whole = start([1, 2], prompt_length=2)
    before = ""
    for token_id in IDS[:died_at]:
        whole.add(Chunk(token_ids=[token_id]), 0.0)
        before += "".join(
            delta.delta.content or "" for part in whole.take(inf) for delta in part.deltas
        )
    assert before + (finish(stream, IDS[died_at:]) or "") == TEXT


@pytest.mark.parametrize("clock", [True, False])
def test_stages_are_measured_if_there_is_a_clock(clock: bool) -> None:
    stream = start([], clock=clock)
    stream.add(Chunk(token_ids=IDS), 0.0)
    (part,) = stream.take(inf)
    assert bool(part.times) is clock


def test_there_is_always_room() -> None:
    stream = start([])
    for _ in range(1000):
        stream.add(Chunk(token_ids=IDS), 0.0)
    assert stream.room is None
    stream.close()


def test_the_name_is_that_of_the_parsers() -> None:
    backend = InlineBackend(tiny_detokenizers(), BrokenParsers(), LOWEST)
    assert backend.parsers_name == "broken"
