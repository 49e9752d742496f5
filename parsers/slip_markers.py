"""Adds to a format's markers those that a model's slips call for.

A model may write an end where nothing is open, or the same marker twice. Where a token marks it, or
no text can hold it, that is markup like any other.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from .format import CALL_STATES, TEXT_STATES, Jump, State, Target, select, target_state

# Targets of markers that end markup.
_ENDED = TEXT_STATES | {State.TOOL_SECTION, State.PARAMETERS, Jump.RETURN}
# A shorter token within a marker is a word or sign with other uses as well.
MIN_PART = 4
# States before which a model may double a marker.
_DOUBLED: frozenset[State] = frozenset(CALL_STATES | {State.PARAMETERS})
# Text that goes on after calls.
_AFTER_CALLS = frozenset({State.CONTENT, State.REASONING})
Table = dict[State, dict[str, Target]]


def add_lone_ends(markers: Table, vocabulary: Collection[str], *, reads_calls: bool) -> None:
    """Ignore closing markers where nothing is open, if a token marks them."""
    ending = set(markers) - TEXT_STATES - {State.HEADER} if reads_calls else set()
    ends = {
        marker
        for state in ending.union({State.REASONING}.intersection(markers))
        for marker, target in markers[state].items()
        if target_state(target) in _ENDED - {state} and has_token(marker, vocabulary)
    }
    for state in TEXT_STATES.intersection(markers):
        for marker in ends:
            markers[state].setdefault(marker, state)
    if section := markers.get(State.TOOL_SECTION):
        # The end of a call that was rejected.
        for state in ending - {State.TOOL_SECTION}:
            for marker in ends.intersection(select(markers[state], {State.TOOL_SECTION})):
                section.setdefault(marker, State.TOOL_SECTION)


def add_doubled(markers: Table, by_header: AbstractSet[State | Jump]) -> dict[State, set[str]]:
    """Let each marker stand twice in front of a name, arguments or calls, and at their end.

    Return those added. by_header: the states that headers lead to.
    """
    doubled: dict[State, set[str]] = {}
    for by_marker in markers.values():
        for marker, target in by_marker.items():
            targets = by_header if target is Jump.BY_HEADER else {target}
            for state in _DOUBLED.intersection(targets, markers) if marker else ():
                if state is not State.NAME or len(marker) > 1:  # a sign may be part of a name
                    doubled.setdefault(state, set()).add(marker)
            if target is Jump.RETURN and marker:
                for state in _AFTER_CALLS.intersection(markers):
                    doubled.setdefault(state, set()).add(marker)
    for state, added in doubled.items():
        added.difference_update(markers[state])
        markers[state] |= dict.fromkeys(added, state)
    return doubled


def has_token(marker: str, vocabulary: Collection[str]) -> bool:
    """Whether `marker` is a token or contains one."""
    return marker in vocabulary or any(
        token in marker for token in vocabulary if len(token) >= MIN_PART
    )
