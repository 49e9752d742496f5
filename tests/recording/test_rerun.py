"""A recorded stream gives what it gave, however it is cut."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from backedge.postprocess import Chunk, Postprocessor
from backedge.recording.comparison import Given, find_difference, split_parts
from backedge.recording.recording import (
    RecordedChunk,
    RecordedDeltas,
    RecordedModel,
    RecordedPrompt,
    Recording,
)
from backedge.recording.rerun import (
    LONGEST_RANDOM,
    Parts,
    cut,
    prompt_ids,
    read_sent,
    rerun,
)

from tests.support import (
    NAMES,
    TINY_MODEL,
    TRANSCRIPTS,
    encode,
    params,
    parser_request,
    tiny_detokenizers,
    tiny_parsers,
)

CALL = TRANSCRIPTS["reasoning_call"]
PARTS = Parts(tiny_detokenizers(), tiny_parsers())
HOW = ["recorded", "1", "3", "1000", "all", "random"]


def record(chunks: list[Chunk], **fields: Any) -> Recording:
    """Return the recording of a worker that sends at once what it has."""
    request = params(**{"parser": parser_request(CALL), **fields})
    post = Postprocessor(request, PARTS.detokenizers, PARTS.parsers)
    sent = [(position, post.feed(chunk)) for position, chunk in enumerate(chunks)]
    return Recording(
        source="worker",
        began=1.0,
        model=RecordedModel(path=str(TINY_MODEL), parsers=NAMES, kind="linear"),
        params=request,
        prompt=RecordedPrompt(sha256="", token_ids=[]),
        chunks=[RecordedChunk(float(at), chunk) for at, chunk in enumerate(chunks)],
        sent=[RecordedDeltas(float(at), deltas) for at, deltas in sent if deltas],
    )


def record_call(size: int = 5, **fields: Any) -> Recording:
    token_ids = encode(CALL["output"])
    chunks = [
        Chunk(token_ids=token_ids[start : start + size]) for start in range(0, len(token_ids), size)
    ]
    chunks[-1] = msgspec.structs.replace(chunks[-1], finish_reason="stop")
    return record(chunks, **fields)


def differs(recording: Recording, given: list[Given]) -> bool:
    return any(
        find_difference(split_parts(read_sent(recording), index), split_parts(given, index), index)
        for index in range(recording.params.n)
    )


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("stream", [True, False])
def test_gives_what_was_sent(how: str, stream: bool) -> None:
    recording = record_call(stream=stream)
    assert not differs(recording, rerun(recording, PARTS, cut(recording, how)))


@pytest.mark.parametrize("how", HOW)
def test_all_choices(how: str) -> None:
    token_ids = encode(CALL["output"])
    half = len(token_ids) // 2
    chunks = [
        Chunk(index=0, token_ids=token_ids[:half]),
        Chunk(index=1, token_ids=token_ids[:-3]),
        Chunk(index=0, token_ids=token_ids[half:], finish_reason="stop"),
        Chunk(index=1, token_ids=token_ids[-3:], finish_reason="length"),
    ]
    recording = record(chunks, n=2)
    assert not differs(recording, rerun(recording, PARTS, cut(recording, how)))


@pytest.mark.parametrize("how", HOW)
def test_a_finish_by_itself_stays_by_itself(how: str) -> None:
    """The token with a finish has no text; the last one here has."""
    recording = record([Chunk(token_ids=encode("Hi you")), Chunk(finish_reason="stop")])
    chunks = cut(recording, how)
    assert (chunks[-1].token_ids, chunks[-1].finish_reason) == ([], "stop")
    assert not differs(recording, rerun(recording, PARTS, chunks))


@pytest.mark.parametrize("how", HOW)
def test_what_comes_behind_the_finish_is_dropped(how: str) -> None:
    recording = record(
        [Chunk(token_ids=encode("Hi"), finish_reason="length"), Chunk(token_ids=encode("you"))]
    )
    assert not differs(recording, rerun(recording, PARTS, cut(recording, how)))


def test_cuts() -> None:
    token_ids = list(range(50))
    recording = record([Chunk(token_ids=token_ids[:30]), Chunk(token_ids=token_ids[30:])])

    def lengths(how: str, seed: int = 0) -> list[int]:
        chunks = cut(recording, how, seed)
        assert [one for chunk in chunks for one in chunk.token_ids] == token_ids
        return [len(chunk.token_ids) for chunk in chunks]

    assert lengths("recorded") == [30, 20]
    assert lengths("7") == [7] * 7 + [1]
    assert lengths("all") == [50]
    assert lengths("random") == lengths("random") != lengths("random", 1)
    assert max(lengths("random")) <= LONGEST_RANDOM


def test_logprobs_stay_with_their_tokens() -> None:
    recording = record(
        [
            Chunk(token_ids=[1, 2], logprobs=[-1.0, -2.0], top_logprobs=[[], []]),
            Chunk(token_ids=[3], logprobs=[-3.0], top_logprobs=[[]], finish_reason="stop"),
        ]
    )
    assert [chunk.logprobs for chunk in cut(recording, "1")] == [[-1.0], [-2.0], [-3.0]]


@pytest.mark.parametrize("how", HOW)
def test_a_migrated_stream_begins_silently(how: str) -> None:
    token_ids = encode(CALL["output"])
    whole = record([Chunk(token_ids=token_ids, finish_reason="stop")])
    chunks = [
        Chunk(token_ids=token_ids[:12]),
        Chunk(token_ids=token_ids[12:], finish_reason="stop"),
    ]
    resumed = msgspec.structs.replace(
        whole, resumed=12, chunks=[RecordedChunk(0.0, chunk) for chunk in chunks]
    )
    given = rerun(resumed, PARTS, cut(resumed, how))
    assert given[0].deltas == []
    silent = rerun(resumed, PARTS, chunks)
    assert find_difference(split_parts(silent, 0), split_parts(given, 0), 0) is None
    assert split_parts(given, 0)


def test_the_tail_stands_for_a_prompt() -> None:
    recording = record([Chunk(token_ids=[1])])
    short = msgspec.structs.replace(recording, prompt=RecordedPrompt(sha256="", tail=[7]))
    assert (prompt_ids(recording), prompt_ids(short)) == ([], [7])
