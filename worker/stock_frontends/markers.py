"""Finds the markers at which text must be cut for a stock frontend's parsers."""

from __future__ import annotations

from ...parsers.base import ParserNames
from ...parsers.format import Format, Jump, State, target_state
from ...parsers.parser_lookup import reasoning_format, tool_format

# Text for the client; the frontend holds back markup until it is complete.
TEXT_STATES = (State.START, State.CONTENT, State.REASONING_OPENED, State.REASONING)
LEAD_TO_TEXT = (*TEXT_STATES, Jump.RETURN, Jump.BY_HEADER)
# Dynamo's tool parsers react to each chunk with one of these, whatever their format: it may begin
# or end a call, and the text around it is trimmed or never searched for calls.
SIGNS = ("{", "}", "[", "]", "<", ">")


def find_markers(in_rust: ParserNames, names: ParserNames) -> list[str] | None:
    """Return the markers that begin or end text for the client; [] without parsers.

    in_rust: the frontend's parsers. names: the worker's, for formats with different names there.
    Return None for a format that is unknown or lacks such markers.
    """
    markers = dict.fromkeys(SIGNS if in_rust.tool_call is not None else ())
    for find, in_frontend, in_worker in (
        (tool_format, in_rust.tool_call, names.tool_call),
        (reasoning_format, in_rust.reasoning, names.reasoning),
    ):
        if in_frontend is None:
            continue
        format_ = find(in_frontend) or (find(in_worker) if in_worker else None)
        own = () if format_ is None else read_markers(format_)
        if not own:
            return None
        markers |= dict.fromkeys(own)
    return list(markers)


def read_markers(format_: Format) -> list[str]:
    """Return the markers of one format that begin or end text for the client."""
    return [
        marker
        for state, by_marker in format_.states.items()
        for marker, target in by_marker.items()
        if marker.strip() and (state in TEXT_STATES or target_state(target) in LEAD_TO_TEXT)
    ]
