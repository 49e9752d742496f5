"""Feeds a grammar as the engine does, where no marker stands in the text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from backedge.parsers.arguments.incremental_grammar import IncrementalGrammar, Status
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.events import Event, join
from hypothesis import strategies as st

ENDED = (Status.DONE, Status.NOT_A_CALL)
MakeGrammar = Callable[[ToolCallEmitter], IncrementalGrammar]


@dataclass(frozen=True)
class Reading:
    """What a grammar makes of a text. rest: the text after the calls."""

    events: list[Event]
    status: Status
    rest: str


def cut_pieces(text: str, cuts: Collection[int]) -> list[str]:
    positions = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[start:end] for start, end in itertools.pairwise(positions)]


def read_calls(
    make: MakeGrammar,
    text: str,
    cuts: Collection[int] = (),
    parameters: Mapping[str, dict[str, Any]] | None = None,
    *,
    max_held: int = 256,
) -> Reading:
    """Return what the grammar makes of `text`; it holds back at most `max_held` characters."""
    calls = ToolCallEmitter(parameters or {})
    grammar = make(calls)
    held, taken = "", 0
    for piece in cut_pieces(text, cuts):
        held = _read(grammar, held + piece, final=False)
        taken += len(piece)
        if grammar.status in ENDED:
            return Reading(join(calls.events), grammar.status, held + text[taken:])
        assert len(held) <= max_held
    while held and grammar.status not in ENDED:
        left = _read(grammar, held, final=True)
        if left == held and grammar.status is Status.MORE:
            grammar.take_unexpected(held[0])
            left = held[1:]
        held = left
    if grammar.status not in ENDED:
        grammar.close()
    return Reading(join(calls.events), grammar.status, held)


def _read(grammar: IncrementalGrammar, text: str, *, final: bool) -> str:
    """Read `text`; return the end of it that was not taken."""
    position = grammar.read(text, final=final)
    while grammar.status in (Status.UNEXPECTED, Status.NEXT_CALL):
        if grammar.status is Status.UNEXPECTED:
            grammar.take_unexpected(text[position])
            if grammar.status in ENDED:
                break
            position += 1
        position = grammar.read(text, position, final=final)
    return text[position:]


def read_through(value: Any, text: str) -> str:
    """Read `text`, which has no markers; return its unread end, which needs more text."""
    position = value.read_far(text)
    return text[position:] if value.status is Status.MORE else ""


def read_value(value: Any, out: list[str], text: str, cuts: Collection[int], longest: int) -> str:
    """Return what `value` writes to `out` of `text`, fed in pieces; it holds back no more."""
    held = ""
    for piece in cut_pieces(text, cuts):
        held = read_through(value, held + piece)
        assert len(held) <= longest
        if value.status is Status.DONE:
            return "".join(out)
    while held and value.status is not Status.DONE:
        position = value.read(held, final=True)
        if value.status is Status.UNEXPECTED:
            value.take_unexpected(held[position])
            position += 1
        held = held[position:]
    if value.status is not Status.DONE:
        value.close()
    return "".join(out)


# Python reads none of more than 4,300 digits.
LONG_NUMBERS = st.sampled_from([10**260, -(10**4298)])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
# Names and arguments of calls.
CALLS = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=8), st.dictionaries(st.text(max_size=5), VALUES, max_size=3)
    ),
    min_size=1,
    max_size=3,
)
