"""Times of a choice: first token and delta, gaps between chunks, total."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from ...recording.recording import Recording

# The quantile of the gaps between chunks that counts as long.
HIGH_SHARE = 0.99
MS_PER_S = 1000


class Timing(msgspec.Struct, frozen=True):
    """Milliseconds since the request arrived or between two chunks; None if not applicable.

    tokens, chunks: counts. gap_at: number of the chunk after the longest gap.
    tokens_per_s: from the first chunk to the last.
    """

    tokens: int
    chunks: int
    first_token_ms: float | None
    first_delta_ms: float | None
    last_ms: float | None
    median_gap_ms: float | None
    high_gap_ms: float | None
    longest_gap_ms: float | None
    gap_at: int | None
    tokens_per_s: float | None


def measure(recording: Recording, index: int) -> Timing:
    """Return the times of a choice, ignoring chunks without tokens."""
    chunks = [
        (number, recorded.at_ms, len(recorded.chunk.token_ids))
        for number, recorded in enumerate(recording.chunks)
        if recorded.chunk.index == index and recorded.chunk.token_ids
    ]
    sent = [
        group.at_ms for group in recording.sent for delta in group.deltas if delta.index == index
    ]
    times = [at_ms for _, at_ms, _ in chunks]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    longest = max(range(len(gaps)), key=gaps.__getitem__) if gaps else None
    tokens = sum(count for *_, count in chunks)
    span = times[-1] - times[0] if times else 0
    generated = tokens - chunks[0][2] if chunks else 0
    return Timing(
        tokens=tokens,
        chunks=len(chunks),
        first_token_ms=times[0] if times else None,
        first_delta_ms=min(sent, default=None),
        last_ms=max([*times, *sent], default=None),
        median_gap_ms=share_of(gaps, 0.5),
        high_gap_ms=share_of(gaps, HIGH_SHARE),
        longest_gap_ms=None if longest is None else gaps[longest],
        gap_at=None if longest is None else chunks[longest + 1][0],
        tokens_per_s=generated / span * MS_PER_S if span > 0 else None,
    )


def share_of(values: Sequence[float], share: float) -> float | None:
    """Return the value that the given `share` of the values does not exceed, or None."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None
