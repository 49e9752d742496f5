"""The markers at which a stock frontend's parsers must get text in parts."""

from __future__ import annotations

from ...parsers.base import ParserNames
from ...parsers.format import Format, Jump, State, target_state
from ...parsers.parser_lookup import reasoning_format, tool_format

# Text for the client; markup is held back in the frontend until it is complete.
TEXT_STATES = (State.START, State.CONTENT, State.REASONING_OPENED, State.REASONING)
LEAD_TO_TEXT = (*TEXT_STATES, Jump.RETURN, Jump.BY_HEADER)
# A shorter one is a sign that occurs in any text, like a brace.
MIN_MARKER = 3


def find_markers(in_rust: ParserNames, names: ParserNames) -> list[str] | None:
    """Return the markers that begin or end text for the client; none without parsers.

    in_rust: the parsers of the frontend. names: those of the worker, for formats that have other
        names there.
    Return None for a format without such markers, and for one of which nothing is known.
    """
    markers: dict[str, None] = {}
    for find, in_frontend, in_worker in (
        (tool_format, in_rust.tool_call, names.tool_call),
        (reasoning_format, in_rust.reasoning, names.reasoning),
    ):
        if in_frontend is None:
            continue
        format_ = find(in_frontend) or (find(in_worker) if in_worker else None)
        own = None if format_ is None else read_markers(format_)
        if not own:
            return None
        markers |= dict.fromkeys(own)
    return list(markers)


def read_markers(format_: Format) -> list[str] | None:
    """Return the markers of one format; None if other signs in text may be markup as well."""
    in_text = [marker for state in TEXT_STATES for marker in format_.states.get(state, ())]
    if any(len(marker.strip()) < MIN_MARKER for marker in in_text):
        return None
    ends = (
        marker
        for by_marker in format_.states.values()
        for marker, target in by_marker.items()
        if target_state(target) in LEAD_TO_TEXT and len(marker.strip()) >= MIN_MARKER
    )
    return [*in_text, *ends]
