"""The times of a choice."""

from __future__ import annotations

import pytest
from backedge.cli.inspect.timing import measure, share_of
from backedge.postprocess import Chunk

from tests.cli.recorded import record_chunks
from tests.support import encode


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
