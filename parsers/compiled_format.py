"""A format, or a pair of them, made ready for one vocabulary."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from .format import CALL_STATES, COMPLETE, TEXT_STATES, Format, Jump, State, Target, target_state

FENCE = "```"
# Reasoning, and what may turn out to be.
REASONING_STATES: frozenset[State | Jump] = frozenset(
    {State.REASONING, State.REASONING_OPENED, State.HEADER, Jump.BY_HEADER}
)
Markers = dict[State, dict[str, Target]]


@dataclass(frozen=True)
class Scanner:
    """Finds the markers of one state in text.

    running: its first group matches what may be the beginning of a marker at the
        end of the text. final: for the end of the output, where nothing may follow.
    """

    running: re.Pattern[str]
    final: re.Pattern[str]


@dataclass(frozen=True)
class CompiledFormat:
    """Everything the engine asks of its formats while it reads.

    markers: by state, each marker's target. scanners: by state, for the markers
    that are found as text. ids: the markers that are tokens of the vocabulary.
    parts: tokens of the vocabulary that are part of a marker found as text.
    headers: what a HEADER leads to. initial_state: the first state.
    alone: tokens that must be read by themselves. counted: states where a marker found
    as text begins or ends reasoning, so that only single tokens can be counted.
    grammar: the format whose calls are read, or a reasoning format without any.
    """

    formats: tuple[Format, ...]
    markers: Mapping[State, Mapping[str, Target]]
    scanners: Mapping[State, Scanner]
    ids: Mapping[int, str]
    parts: Mapping[int, str]
    headers: tuple[tuple[re.Pattern[str], State], ...]
    initial_state: State
    alone: frozenset[int]
    counted: frozenset[State]

    @property
    def grammar(self) -> Format:
        """The format that says how names, keys and values are read."""
        return self.formats[-1]


def compile_format(
    reasoning: Format | None, tools: Format | None, vocabulary: Mapping[str, int]
) -> CompiledFormat:
    """Return the table for a reasoning format and a tool format, each for its part; one format may be both.

    vocabulary: the added tokens' ids by their text. A marker that is one token there counts
    as that token only; text that looks like it is text.
    """
    chosen = (
        [_part(reasoning, lambda state: state not in CALL_STATES)] if reasoning is not None else []
    )
    if tools is not None:
        # Where a header says what is reasoning, the calls cannot be read without it.
        keeps_all = tools is reasoning or any(
            state is State.REASONING for _, state in tools.headers
        )
        chosen.append(
            _part(
                tools,
                lambda state: keeps_all or state not in (State.REASONING, State.REASONING_OPENED),
            )
        )
    formats = tuple(format_ for format_ in (reasoning, tools) if format_ is not None)
    markers = _merge(chosen)
    _spread(markers)
    known = {marker for by_marker in markers.values() for marker in by_marker}
    known.update(quote for format_ in formats for quote in format_.quotes)
    ids = {vocabulary[marker]: marker for marker in known if marker in vocabulary}
    texts_of_markers = "\0".join(known.difference(vocabulary))
    parts = {token_id: token for token, token_id in vocabulary.items() if token in texts_of_markers}
    scanners = {}
    for state, by_marker in markers.items():
        texts = [marker for marker in by_marker if marker not in vocabulary and marker != COMPLETE]
        if state is State.CODE_BLOCK:
            texts = [FENCE]
        if texts:
            scanners[state] = _scanner(texts)
    headers = tuple(
        (pattern, State.CONTENT if tools is None and state not in TEXT_STATES else state)
        for format_ in formats[-1:]
        for pattern, state in format_.headers
    )
    initial_state = formats[-1].initial_state if formats else State.CONTENT
    counted = frozenset(state for state in scanners if may_reason(state, markers, vocabulary))
    return CompiledFormat(
        formats,
        markers,
        scanners,
        ids,
        parts,
        headers,
        initial_state,
        frozenset({*ids, *parts}),
        counted,
    )


def may_reason(state: State, markers: Markers, vocabulary: Mapping[str, int]) -> bool:
    """Whether text without any token that is a marker may lead from `state` to reasoning, or is reasoning."""
    found: set[State | Jump] = {state}
    open_ = [state]
    while open_:
        by_marker = markers.get(open_.pop(), {})
        new = {
            target_state(target) for marker, target in by_marker.items() if marker not in vocabulary
        } - found
        found |= new
        open_ += [reached for reached in new if isinstance(reached, State)]
    return not found.isdisjoint(REASONING_STATES)


def _part(format_: Format, keeps: Callable[[State | Jump], bool]) -> Markers:
    """Return the format's markers, without the states that are not wanted.

    A marker that leads there from text is text; one in the midst of markup leads to content.
    """
    part: Markers = {}
    for state, by_marker in format_.states.items():
        wanted = {
            marker: target for marker, target in by_marker.items() if keeps(target_state(target))
        }
        if state in (State.IGNORED, State.HEADER):
            wanted = {marker: wanted.get(marker, State.CONTENT) for marker in by_marker}
        part[state] = (
            wanted if state in TEXT_STATES | {State.IGNORED, State.HEADER} else dict(by_marker)
        )
    return part


def _merge(parts: Iterable[Markers]) -> Markers:
    merged: Markers = {}
    for part in parts:
        for state, by_marker in part.items():
            merged.setdefault(state, {}).update(by_marker)
    return merged


def _spread(markers: Markers) -> None:
    """Add the markers that states share by rule, whatever the format."""
    content = markers.setdefault(State.CONTENT, {})
    calls = {
        marker: target for marker, target in content.items() if target_state(target) in CALL_STATES
    }
    if State.REASONING in markers:
        # A call may come before reasoning has ended, or in its midst.
        markers[State.REASONING] = {**calls, **markers[State.REASONING]}
        start = markers.get(State.START, {})
        leads = (State.REASONING, State.REASONING_OPENED)
        opening = {
            marker: target for marker, target in start.items() if target_state(target) in leads
        }
        markers[State.REASONING_OPENED] = {
            **markers[State.REASONING],
            **opening,
            **markers.get(State.REASONING_OPENED, {}),
        }
    if calls:
        # What looks like a marker in a code block is an example, unless it is a token of its own.
        content[FENCE] = State.CODE_BLOCK
        markers[State.CODE_BLOCK] = {**content, FENCE: State.CONTENT}
    markers[State.START] = {**content, **markers.get(State.START, {})}


def _scanner(texts: list[str]) -> Scanner:
    longest_first = sorted(texts, key=len, reverse=True)
    whole = "|".join(map(re.escape, longest_first))
    # Beginnings first: a marker that another one begins with waits for that one's rest.
    partial = _beginnings(longest_first)
    return Scanner(re.compile(rf"((?:{partial})\Z)|{whole}"), re.compile(rf"(\Z\b\B)|{whole}"))


def _beginnings(texts: list[str]) -> str:
    """Return a pattern for every proper beginning of `texts`."""
    beginnings = {text[:length] for text in texts for length in range(1, len(text))}
    return (
        "|".join(re.escape(beginning) for beginning in sorted(beginnings, key=len, reverse=True))
        or r"\Z\b\B"
    )
