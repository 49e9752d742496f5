"""The list of a file's requests, the choice of one, and its times."""

from __future__ import annotations

import pytest
from backedge.cli.inspect.summary import (
    measure,
    share_of,
    show_rows,
    summarize,
)
from backedge.postprocess import Chunk

from tests.cli.recorded import record_chunks, record_transcript
from tests.support import encode

RECORDINGS = [record_transcript(name) for name in ("parallel_calls", "reasoning_call")]


def test_a_row_says_what_came() -> None:
    row = summarize(3, RECORDINGS[0])
    assert (row.number, row.id, row.tool_calls) == (3, "chatcmpl-parallel_calls", 2)
    assert row.finish_reasons == ["tool_calls"]
    assert row.tokens == sum(len(each.chunk.token_ids) for each in RECORDINGS[0].chunks)
    assert row.duration_ms == RECORDINGS[0].sent[-1].at_ms


def test_the_table_has_a_line_for_each() -> None:
    lines = show_rows([summarize(number, each) for number, each in enumerate(RECORDINGS, 1)])
    head, first, second = lines
    assert head.split()[:2] == ["#", "request"]
    assert first.split()[1] == "chatcmpl-parallel_calls"
    assert second.split()[-3] == str(len(RECORDINGS[1].chunks))


def test_hostile_names_cannot_reach_the_terminal() -> None:
    row = summarize(1, record_transcript("reasoning_call", response_id="\x1b[2J", model="a\nb"))
    assert "\x1b" not in "".join(show_rows([row]))
    assert len(show_rows([row])) == 2


def test_times_and_gaps() -> None:
    ids = encode("one two three four")
    recording = record_chunks(
        [Chunk(token_ids=ids[:2]), Chunk(token_ids=ids[2:4]), Chunk(finish_reason="length")]
    )
    timing = measure(recording, 0)
    assert (timing.tokens, timing.chunks) == (4, 2)
    assert (timing.first_token_ms, timing.first_delta_ms) == (10.0, 10.25)
    assert (timing.longest_gap_ms, timing.gap_at) == (10.0, 1)
    assert timing.tokens_per_s == pytest.approx(200)
    assert timing.last_ms == 30.25


def test_of_nothing_there_are_none() -> None:
    timing = measure(record_chunks([]), 0)
    assert timing.first_token_ms is timing.longest_gap_ms is timing.tokens_per_s is None


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 3), (0.99, 5), (0.0, 1)], ids=["median", "high", "lowest"]
)
def test_shares(share: float, expected: float) -> None:
    assert share_of([5, 3, 1, 2, 4], share) == expected
