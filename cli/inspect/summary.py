"""Summarizes a recorded request in one row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from ...base.errors import BackedgeError
from ...recording.recording import Recording
from .visible import make_visible

SHOWN_ID = 48


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a file.

    number: in the file, from 1. finish_reasons: of its choices, as sent. duration_ms: up to its
    last chunk or delta. tool_calls: number of calls sent.
    """

    number: int
    id: str
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


class Chosen(NamedTuple):
    """A request of a file, with its row."""

    row: RequestRow
    recording: Recording


class NoRequestError(BackedgeError):
    """A file has no request of this number or id."""


def summarize(number: int, recording: Recording) -> RequestRow:
    """Return the row of the request `number`."""
    deltas = [delta for group in recording.sent for delta in group.deltas]
    times = [chunk.at_ms for chunk in recording.chunks] + [sent.at_ms for sent in recording.sent]
    return RequestRow(
        number=number,
        id=recording.params.response_id,
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


def choose(recordings: Iterable[Recording], request: str) -> Chosen:
    """Return the request with this id, or else with this number.

    Raises `NoRequestError` if there is no such request.
    """
    by_number = None
    count = 0
    for count, recording in enumerate(recordings, 1):
        if recording.params.response_id == request:
            return Chosen(summarize(count, recording), recording)
        if str(count) == request:
            by_number = Chosen(summarize(count, recording), recording)
    if by_number is None:
        raise NoRequestError(
            f"--request {request!r}: the file has {count} requests, none with this number or id; "
            "leave out --request to list them."
        )
    return by_number


def show_rows(rows: Sequence[RequestRow]) -> str:
    """Return a table of requests, one per line."""
    head = ("#", "request", "model", "parsers", "outcome", "tokens", "chunks", "calls", "ms")
    table = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    lines = []
    for line in table:
        cells = [
            cell.ljust(width) if 0 < column < NUMBERS_FROM else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


# The first column, and all from here on, are numbers.
NUMBERS_FROM = 5


def _cells(row: RequestRow) -> tuple[str, ...]:
    outcome = "/".join(dict.fromkeys(row.finish_reasons)) or row.outcome
    outcome = outcome if row.outcome == "finished" else row.outcome
    return (
        str(row.number),
        make_visible(row.id)[:SHOWN_ID],
        make_visible(row.model)[:SHOWN_ID],
        row.parsers,
        outcome + (" (redacted)" if row.redacted else ""),
        str(row.tokens),
        str(row.chunks),
        str(row.tool_calls),
        f"{row.duration_ms:.0f}",
    )
