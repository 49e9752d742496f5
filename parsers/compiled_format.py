"""Compiles formats for one vocabulary into the tables of the linear parser.

A model may use one format for reasoning and another one for tool calls. `compile_format` joins both
into one table, adds the markers that all formats share, and decides for each marker whether it is a
token of the vocabulary or must be found in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from .arguments.tool_calls import FindMarkup
from .call_spelling import CallSpelling, read_spelling
from .format import (
    CALL_STATES,
    CODE_STATES,
    COMPLETE,
    REASONING_STATES,
    TEXT_STATES,
    VALUE_STATES,
    Format,
    Jump,
    ReuseSuffix,
    State,
    States,
    Target,
    select,
    target_state,
)
from .scanner import Scanner
from .slip_markers import Table, add_doubled, add_lone_ends, has_token
from .swallowed_markup import SwallowedMarkup

# A fence begins a line, after at most three spaces (CommonMark 0.31, 4.5).
FENCE = "```"
FENCES = tuple(f"\n{' ' * indent}{FENCE}" for indent in range(4))
_BY_HEADER: frozenset[State | Jump] = frozenset({State.HEADER, Jump.BY_HEADER})
# Texts that look like the markers of code blocks.
CODE_MARKERS = frozenset({"`", "\n", FENCE, *FENCES})
# Markup whose markers remain even if their targets are excluded.
_KEPT_MARKUP = frozenset({State.IGNORED, State.HEADER})
# Grammars whose values have no ends, or ends that a value may contain.
_OPEN_GRAMMARS = {State.ELEMENTS, State.CALL_LIST, State.PYTHON_CALLS, State.PYTHON_LINES}
# States that read what a call holds.
_CALL_BODIES = CALL_STATES - {State.TOOL_SECTION, State.NAME} | {State.PARAMETERS}
# Targets of markers that end a call.
_AFTER_CALL: frozenset[State | Jump] = TEXT_STATES | {State.TOOL_SECTION, Jump.RETURN}
# Where an answer goes on after its reasoning.
_ANSWER = frozenset({State.START, State.CONTENT})
# Text for the client in any request.
_SHOWN = TEXT_STATES | {Jump.RETURN}


@dataclass(frozen=True)
class CompiledFormat:
    """A table for one vocabulary.

    formats: the compiled formats, reasoning first.
    markers: by state, each marker's target.
    doubled: by state, the markers of `markers` that count only where the model has doubled them.
    scanners: by state, for markers that are found in text.
    ids: the markers that are tokens, by token id.
    parts: tokens that occur within a marker found in text, by token id.
    headers: patterns for the text of a HEADER with their targets; the first match wins.
    prefix: content before the answer.
    initial_state: the state before the first token, unless the prompt decides.
    spelled: the markers that are ordinary text, without any token of the vocabulary.
    alone: tokens that must be fed one at a time.
    counted: states in which a marker found in text may begin or end reasoning, so reasoning
        tokens can be counted only if tokens come one at a time.
    unread: the markers of the tool format's reasoning if that is not read: text, also where the
        tokenizer hides them.
    forms: by the markers that open calls, the table for such calls if there are several.
    """

    formats: tuple[Format, ...]
    markers: States
    doubled: Mapping[State, AbstractSet[str]]
    scanners: Mapping[State, Scanner]
    ids: Mapping[int, str]
    parts: Mapping[int, str]
    headers: tuple[tuple[re.Pattern[str], State | Jump], ...]
    prefix: str
    initial_state: State
    spelled: frozenset[str]
    alone: frozenset[int]
    counted: frozenset[State]
    unread: frozenset[str]
    forms: Mapping[str, CompiledFormat] = field(default_factory=dict, repr=False, compare=False)

    def compile_scanners(self) -> None:
        """Compile the patterns of all scanners, which otherwise the first search does."""
        for scanner in self.scanners.values():
            scanner.compile()

    def find_call_ends(self, state: State) -> dict[str, State | Jump]:
        """Return the markers that end a call, or all calls, in `state`, with their targets."""
        ends = {
            marker: target_state(target)
            for marker, target in self.markers.get(state, {}).items()
            if marker and target_state(target) in _AFTER_CALL
        }
        # A marker that leads back to the state may begin a section.
        known = self.call_ends if state is State.TOOL_SECTION else ends.keys()
        return {
            marker: target
            for marker, target in ends.items()
            if marker not in self.call_starts and (target is not state or marker in known)
        }

    @cached_property
    def call_ends(self) -> frozenset[str]:
        """The markers that end a call after its parameters."""
        return frozenset(self.find_call_ends(State.PARAMETERS))

    @cached_property
    def call_spelling(self) -> CallSpelling:
        """How calls and parameters end."""
        return read_spelling(self.grammar)

    @cached_property
    def thought_ends(self) -> frozenset[str]:
        """The markers that end reasoning."""
        ends = select(self.markers.get(State.REASONING, {}), _ANSWER)
        return frozenset(ends)

    @cached_property
    def markup(self) -> SwallowedMarkup | None:
        """Finds markers in values; None if values have ends of their own."""
        reads_values = not (VALUE_STATES | _OPEN_GRAMMARS).isdisjoint(self.markers)
        tokens = frozenset(self.ids.values()) - self.spelled
        if not reads_values:
            return None
        parts = {*self.ids.values(), *self.parts.values()}
        return SwallowedMarkup(
            self.grammar, self.markers, tokens, lambda text: not has_token(text, parts)
        )

    def find_markup(self, tokens: Collection[str]) -> FindMarkup | None:
        """Return what finds markup in values; None as for `markup`. tokens: as for its `is_in`."""
        return None if self.markup is None else partial(self.markup.is_in, tokens=tokens)

    @cached_property
    def key_ends(self) -> frozenset[str]:
        """The tokens that end a key, after which its value's own marker may be missing."""
        in_key = select(self.markers.get(State.KEY, {}), {State.PARAMETERS})
        tokens, in_value = set(self.ids.values()), self.markers.get(State.VALUE)
        if in_value is None:
            return frozenset()
        return frozenset(end for end in in_key if end in tokens and end not in in_value)

    @cached_property
    def has_several(self) -> bool:
        """Whether a section may have several calls: the end of one leads back to it."""
        inside = set(self.markers) - TEXT_STATES - {State.TOOL_SECTION}
        return any(State.TOOL_SECTION in self.markers[state].values() for state in inside)

    @cached_property
    def call_starts(self) -> frozenset[str]:
        """The markers that open calls."""
        return frozenset(select(self.markers.get(State.CONTENT, {}), CALL_STATES))

    @cached_property
    def frame_words(self) -> frozenset[str]:
        """The words that the format writes around a call, with "0" for a counter of the name."""
        spelling = self.grammar.spelling
        around = spelling.call if spelling is not None else ""
        around = re.sub(r"\{\w+\}", " ", re.sub(r"\{name\}\W\{index\}", " 0 ", around))
        return frozenset(re.findall(r"\w+", around))

    @property
    def grammar(self) -> Format:
        """The tool calls' format, which determines how names, keys and values are read."""
        return self.formats[-1]


def compile_format(
    reasoning: Format | None,
    tools: Format | None,
    vocabulary: Mapping[str, int],
    *,
    guided: bool = False,
) -> CompiledFormat:
    """Return the table for a reasoning format and a tool format; one format may be both.

    vocabulary: text -> id of the added tokens. A marker that is such a token is recognized only
        as that token; the same characters from other tokens are text.
    guided: a grammar constrains the answer, so marker tokens in it are text.
    """
    if tools is None or not tools.forms:
        table = _compile_form(reasoning, tools, vocabulary, guided=guided)
        table.compile_scanners()
        return table
    tables = _compile_forms(reasoning, tools, vocabulary)
    tables[0].compile_scanners()  # other forms are rare: theirs are compiled when one begins
    return tables[0]


def _compile_forms(
    reasoning: Format | None, tools: Format, vocabulary: Mapping[str, int]
) -> list[CompiledFormat]:
    """Return the tables for all forms of calls, each with all of them by their markers."""
    formats = (tools, *tools.forms)
    starts = [_list_call_starts(form) for form in formats]
    openers = {marker: target for own in reversed(starts) for marker, target in own.items()}
    tables = [
        _compile_form(form if reasoning is tools else reasoning, form, vocabulary, openers)
        for form in formats
    ]
    forms: dict[str, CompiledFormat] = {}
    tables = _share_tokens(tables, forms)
    forms |= {
        marker: table
        for table, own in zip(reversed(tables), reversed(starts), strict=True)
        for marker in own
    }
    return tables


def _share_tokens(
    tables: Iterable[CompiledFormat], forms: Mapping[str, CompiledFormat]
) -> list[CompiledFormat]:
    """Return the tables with the tokens of all of them, and with `forms`."""
    tables = list(tables)
    ids = {token_id: marker for table in tables for token_id, marker in table.ids.items()}
    parts = {token_id: token for table in tables for token_id, token in table.parts.items()}
    alone = frozenset({*ids, *parts})
    return [replace(table, ids=ids, parts=parts, alone=alone, forms=forms) for table in tables]


def _list_call_starts(format_: Format) -> dict[str, Target]:
    """Return the markers of content that open the format's calls, in all spellings."""
    own = select(format_.states.get(State.CONTENT, {}), CALL_STATES)
    return {spelt: target for marker, target in own.items() for spelt in format_.spell(marker)}


def _compile_form(
    reasoning: Format | None,
    tools: Format | None,
    vocabulary: Mapping[str, int],
    openers: Mapping[str, Target] | None = None,
    *,
    guided: bool = False,
) -> CompiledFormat:
    """Return the table for one form of calls. openers: the markers that open calls of any form."""
    formats = tuple(format_ for format_ in (reasoning, tools) if format_ is not None)
    unread = _list_unread(reasoning, tools)
    markers = _choose_markers(reasoning, tools, unread)
    markers[State.CONTENT] = {**(openers or {}), **markers.get(State.CONTENT, {})}
    _add_shared_markers(markers, () if guided else vocabulary)
    if not guided:
        add_lone_ends(markers, vocabulary, reads_calls=tools is not None)
    headers = _choose_headers(formats, reads_calls=tools is not None)
    doubled = add_doubled(markers, {state for _, state in headers})
    known = _list_markers(formats, markers)
    ids, parts = _find_tokens(known | unread, vocabulary)
    scanners = _build_scanners(markers, vocabulary)
    return CompiledFormat(
        formats=formats,
        markers=markers,
        doubled=doubled,
        scanners=scanners,
        ids=ids,
        parts=parts,
        headers=headers,
        prefix=formats[0].prefix if formats else "",
        initial_state=formats[-1].initial_state if formats else State.CONTENT,
        spelled=frozenset(marker for marker in known if not has_token(marker, vocabulary)),
        alone=frozenset({*ids, *parts}),
        counted=_find_counted(scanners, markers, vocabulary, headers),
        unread=unread,
    )


def _find_counted(
    states: Iterable[State],
    markers: Table,
    vocabulary: Collection[str],
    headers: tuple[tuple[re.Pattern[str], State | Jump], ...],
) -> frozenset[State]:
    """Return the `states` in which text may begin or end reasoning."""
    by_header = any(state is State.REASONING for _, state in headers)
    reasons = REASONING_STATES | _BY_HEADER if by_header else REASONING_STATES
    return frozenset(state for state in states if _may_reason(state, markers, vocabulary, reasons))


def _may_reason(
    state: State,
    markers: Table,
    vocabulary: Collection[str],
    reasons: AbstractSet[State | Jump],
) -> bool:
    """Whether text without marker tokens may lead from `state` to one of `reasons`."""
    found: set[State | Jump] = {state}
    unvisited = [state]
    while unvisited:
        by_marker = markers.get(unvisited.pop(), {})
        new = {
            target_state(target) for marker, target in by_marker.items() if marker not in vocabulary
        } - found
        found |= new
        unvisited += [reached for reached in new if isinstance(reached, State)]
    return not found.isdisjoint(reasons)


# The choice of markers.


def _list_unread(reasoning: Format | None, tools: Format | None) -> frozenset[str]:
    """Return the markers of the tool format's reasoning alone, unless some reasoning has them."""
    if tools is None or tools is reasoning or tools.has_channels:
        return frozenset()
    read = _list_thought_markers(reasoning) if reasoning is not None else set()
    return frozenset(
        _list_thought_markers(tools) - read - tools.states.get(State.CONTENT, {}).keys()
    )


def _list_thought_markers(format_: Format) -> set[str]:
    """Return the markers that open and end the format's reasoning."""
    starts = {
        marker
        for state, by_marker in format_.states.items()
        if state not in REASONING_STATES
        for marker in select(by_marker, REASONING_STATES)
    }
    return starts.union(select(format_.states.get(State.REASONING, {}), _ANSWER))


def _choose_markers(
    reasoning: Format | None, tools: Format | None, unread: AbstractSet[str]
) -> Table:
    """Return the markers of both formats, without those for the other format's purpose.

    A marker of calls that begins like one of the reasoning that is read is left to that one.
    unread: as for `CompiledFormat`.
    """
    markers: Table = {}
    if reasoning is not None:
        _merge(markers, _choose_part(reasoning, lambda target: target not in CALL_STATES))
    if tools is None:
        return markers
    # If headers announce reasoning, the calls cannot be read without it.
    if tools is reasoning or tools.has_channels:
        _merge(markers, _choose_part(tools, lambda _: True))
    else:
        part = _choose_part(tools, lambda target: target not in REASONING_STATES)
        read = tuple(_list_thought_markers(reasoning)) if reasoning is not None else ()
        for state in part.keys() - REASONING_STATES:
            own = {
                marker: target
                for marker, target in part[state].items()
                if marker not in unread and (marker in read or not marker.startswith(read))
            }
            markers.setdefault(state, {}).update(own)
    return markers


def _choose_part(format_: Format, keeps: Callable[[State | Jump], bool]) -> Table:
    """Return the format's markers, except those that lead to an excluded state.

    In text such a marker becomes text; in markup it leads to content. In channels what it opens is
    dropped: the client's texts are in the other ones.
    """
    part: Table = {}
    has_channels = format_.has_channels
    excluded = State.IGNORED if has_channels else State.CONTENT
    for state, own in format_.states.items():
        by_marker = {
            spelt: target for marker, target in own.items() for spelt in format_.spell(marker)
        }
        wanted = {
            marker: target for marker, target in by_marker.items() if keeps(target_state(target))
        }
        if state in _KEPT_MARKUP or (has_channels and state in TEXT_STATES):
            part[state] = {marker: wanted.get(marker, excluded) for marker in by_marker}
        else:
            part[state] = wanted if state in TEXT_STATES else dict(by_marker)
    return part


def _merge(markers: Table, part: Table) -> None:
    """Add the markers of `part`, which replace existing ones."""
    for state, by_marker in part.items():
        markers.setdefault(state, {}).update(by_marker)


def _add_shared_markers(markers: Table, vocabulary: Collection[str]) -> None:
    """Add the markers that states share in every format."""
    content = markers.setdefault(State.CONTENT, {})
    for marker, target in select(markers.get(State.START, {}), REASONING_STATES).items():
        # As a token the marker always means reasoning; as text it may be a topic.
        if marker in vocabulary:
            content.setdefault(marker, target)
    calls = select(content, CALL_STATES)
    starts = {marker: to for marker, to in calls.items() if not isinstance(to, ReuseSuffix)}
    for state in _CALL_BODIES.intersection(markers):
        # The end of a call may be missing.
        markers[state] = {**starts, **markers[state]}
    if State.REASONING in markers:
        # A call may begin before or during reasoning.
        markers[State.REASONING] = {**calls, **markers[State.REASONING]}
        markers[State.REASONING_OPENED] = {
            **markers[State.REASONING],
            **select(markers.get(State.START, {}), REASONING_STATES),
            **markers.get(State.REASONING_OPENED, {}),
        }
    start = {**content, **markers.get(State.START, {})}
    if calls:
        _add_code_blocks(markers)
        start = {FENCE: State.CODE_FENCE, **content, **start}
    markers[State.START] = start


def _add_code_blocks(markers: Table) -> None:
    """Add the states of Markdown code blocks, in which only tokens are markers."""
    content = markers[State.CONTENT]
    for marker, target in list(content.items()):
        if marker.startswith(FENCE):
            content |= {fence + marker.removeprefix(FENCE): target for fence in FENCES}
    # The line of a fence has no other backtick; otherwise it is text.
    first_line: dict[str, Target] = {"`": State.CONTENT, "\n": ReuseSuffix(State.CODE_BLOCK)}
    markers[State.CODE_FENCE] = {**content, **first_line}
    markers[State.CODE_BLOCK] = {**content, **dict.fromkeys(FENCES, State.CONTENT)}
    for fence in FENCES:
        content.setdefault(fence, State.CODE_FENCE)


def _choose_headers(
    formats: tuple[Format, ...], *, reads_calls: bool
) -> tuple[tuple[re.Pattern[str], State | Jump], ...]:
    """Return the last format's headers; without tools, what a call's header opens is dropped."""
    return tuple(
        (pattern, state if reads_calls or state in _SHOWN else State.IGNORED)
        for format_ in formats[-1:]
        for pattern, state in format_.headers
    )


# The search for markers.


def _list_markers(formats: Iterable[Format], markers: Table) -> set[str]:
    """Return all markers, and the marks of strings."""
    known = {marker for by_marker in markers.values() for marker in by_marker}
    return known.union(quote for format_ in formats for quote in format_.quotes)


def _find_tokens(
    known: set[str], vocabulary: Mapping[str, int]
) -> tuple[dict[int, str], dict[int, str]]:
    """Return the tokens that are markers, and those that occur within other markers."""
    ids = {vocabulary[marker]: marker for marker in known if marker in vocabulary}
    found_in_text = "\0".join(known.difference(vocabulary))
    parts = {token_id: token for token, token_id in vocabulary.items() if token in found_in_text}
    return ids, parts


def _build_scanners(markers: Table, vocabulary: Collection[str]) -> dict[State, Scanner]:
    """Return a scanner for each state with markers that are not in the vocabulary.

    Those of values also find the markers that end calls (`UnendedValue`).
    """
    scanners = {}
    opens = select(markers.get(State.CONTENT, {}), CALL_STATES)
    call_ends = select(markers.get(State.PARAMETERS, {}), _AFTER_CALL).keys() - opens
    for state, by_marker in markers.items():
        known = {*by_marker, *(call_ends if state in VALUE_STATES else ())}
        texts = [marker for marker in known if marker not in vocabulary and marker != COMPLETE]
        if state in CODE_STATES:
            texts = [marker for marker in texts if _counts_in_code(marker, vocabulary)]
        if texts:
            scanners[state] = Scanner(texts)
    return scanners


def _counts_in_code(marker: str, vocabulary: Collection[str]) -> bool:
    """Whether a marker found in text counts in a code block: a fence, or one with a token."""
    return marker in CODE_MARKERS or has_token(marker, vocabulary)
