"""Summarizes a recorded request: one row, and the times of each choice."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from ...base.hidden_characters import escape_hidden
from ...base.terminal import format_table
from ...recording.recording import Recording, Source

SHOWN_ID = 48
SHOWN_WORDS = 80
# The quantile of the gaps between chunks that counts as long.
HIGH_SHARE = 0.99
MS_PER_S = 1000


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a file.

    number: in the file, from 1. source: of the recording. began: in seconds since 1970. words: the
    first of its content. finish_reasons: of its choices, as sent. duration_ms: up to its last chunk
    or delta. tool_calls: number of calls sent.
    """

    number: int
    id: str
    source: Source
    began: float
    words: str
    model: str
    parsers: str
    outcome: str
    finish_reasons: list[str]
    prompt_tokens: int
    tokens: int
    chunks: int
    tool_calls: int
    duration_ms: float
    redacted: bool

    @property
    def result(self) -> str:
        """The finish reasons; the outcome of a request without them, or that did not finish."""
        reasons = "/".join(dict.fromkeys(self.finish_reasons))
        ended = reasons if reasons and self.outcome == "finished" else self.outcome
        return ended + (" (redacted)" if self.redacted else "")


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


class Chosen(NamedTuple):
    """A request of a file, with its row."""

    row: RequestRow
    recording: Recording


def summarize(number: int, recording: Recording) -> RequestRow:
    """Return the row of the request `number`."""
    deltas = [delta for group in recording.sent for delta in group.deltas]
    times = [chunk.at_ms for chunk in recording.chunks] + [sent.at_ms for sent in recording.sent]
    return RequestRow(
        number=number,
        id=recording.params.response_id,
        source=recording.source,
        began=recording.began,
        words="".join(delta.delta.content or "" for delta in deltas)[:SHOWN_WORDS],
        model=recording.params.model,
        parsers=recording.model.parsers.label,
        outcome=recording.outcome,
        finish_reasons=[delta.finish_reason for delta in deltas if delta.finish_reason],
        prompt_tokens=recording.params.prompt_length,
        tokens=sum(len(each.chunk.token_ids) for each in recording.chunks),
        chunks=len(recording.chunks),
        tool_calls=sum(
            call.function.name is not None for each in deltas for call in each.delta.tool_calls
        ),
        duration_ms=max(times, default=0.0),
        redacted=recording.redacted,
    )


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
    gaps = {after[0]: after[1] - before[1] for before, after in itertools.pairwise(chunks)}
    tokens = sum(count for *_, count in chunks)
    span = times[-1] - times[0] if times else 0
    return Timing(
        tokens=tokens,
        chunks=len(chunks),
        first_token_ms=next(iter(times), None),
        first_delta_ms=min(sent, default=None),
        last_ms=max([*times, *sent], default=None),
        median_gap_ms=share_of(gaps.values(), 0.5),
        high_gap_ms=share_of(gaps.values(), HIGH_SHARE),
        longest_gap_ms=max(gaps.values(), default=None),
        gap_at=max(gaps, key=gaps.__getitem__, default=None),
        tokens_per_s=(tokens - chunks[0][2]) / span * MS_PER_S if span > 0 else None,
    )


def share_of(values: Iterable[float], share: float) -> float | None:
    """Return the value that the given `share` of the values does not exceed, or None."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


def show_rows(rows: Sequence[RequestRow]) -> list[str]:
    """Return the lines of a table of requests."""
    head = ("#", "request", "model", "parsers", "outcome", "tokens", "chunks", "calls", "ms")
    return format_table([head, *map(_cells, rows)], right=(0, *range(5, len(head))))


def _cells(row: RequestRow) -> tuple[str, ...]:
    return (
        str(row.number),
        escape_hidden(row.id)[:SHOWN_ID],
        escape_hidden(row.model)[:SHOWN_ID],
        escape_hidden(row.parsers)[:SHOWN_ID],
        row.result,
        str(row.tokens),
        str(row.chunks),
        str(row.tool_calls),
        f"{row.duration_ms:.0f}",
    )
