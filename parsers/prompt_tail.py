"""Reads the end of the prompt, where the chat template or a prefilled answer may have begun.

The last marker that opens or closes reasoning determines the answer's initial state, however long
the thought after it is. Markers that are tokens are searched by id, without decoding; only the
others are searched as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from ..base.limits import MAX_DECODED
from .compiled_format import CompiledFormat
from .format import REASONING_STATES, TEXT_STATES, ReuseSuffix, State, select
from .machine import LinearParser

# Size of the first part that is decoded, and the growth factor of the next ones.
_FIRST_DECODED, _GROWTH = 128, 8
# The longest header in tokens, from its first marker to the one after it.
_MAX_HEADER = 64
# Number of tokens compared at a time; a search through ids takes about 20 ns per token.
_WINDOW = 4096

Decode = Callable[[Sequence[int]], str]


class PromptReader:
    """Determines the state in which a prompt leaves the answer.

    table: the formats, compiled for the vocabulary. text_table: the same with all markers as text.
    """

    def __init__(
        self,
        table: CompiledFormat,
        text_table: CompiledFormat,
        special: AbstractSet[int],
        decode: Decode,
    ) -> None:
        # Not those of `table`, where a marker token without a meaning is also a marker.
        leads = _find_leads(text_table)
        tokens = set(table.ids.values())
        self._text_table = text_table
        self._decode = decode
        self._by_id = {token: leads[text] for token, text in table.ids.items() if text in leads}
        self._by_text = {text: lead for text, lead in leads.items() if text not in tokens}
        # Markers of an earlier turn do not matter for this one.
        ends_turn = special - table.ids.keys() - table.parts.keys()
        self._deciding = frozenset(ends_turn | self._by_id.keys())

    def read(self, prompt_token_ids: Sequence[int]) -> State | None:
        """Return the text state to which the prompt's last marker leads.

        None if the current turn has no marker, or if the last one leads to another kind of state.
        """
        last = find_last(prompt_token_ids, self._deciding)
        if self._by_text:
            for text in decode_back(prompt_token_ids, last + 1, self._decode):
                start, lead = _find_marker(self._by_text, text)
                if lead is not None:
                    return lead if lead is not State.HEADER else self._read_header(text[start:])
        if last < 0 or (lead := self._by_id.get(prompt_token_ids[last])) is not State.HEADER:
            return None if last < 0 else lead
        return self._read_header(self._decode(prompt_token_ids[last : last + _MAX_HEADER]))

    def _read_header(self, text: str) -> State | None:
        """Return the text state after the header that `text` begins with, or None."""
        parser = LinearParser(self._text_table, {})
        parser.feed(text)
        if parser.state is State.REASONING:
            return State.REASONING_OPENED
        return parser.state if parser.state in TEXT_STATES else None


def find_last(token_ids: Sequence[int], wanted: AbstractSet[int]) -> int:
    """Return the last position in `token_ids` of an id that is in `wanted`; -1 if not found."""
    end = len(token_ids)
    while end > 0:
        start = max(0, end - _WINDOW)
        window = token_ids[start:end]
        if not wanted.isdisjoint(window):
            return (
                end
                - 1
                - next(back for back, token in enumerate(reversed(window)) if token in wanted)
            )
        end = start
    return -1


def decode_back(token_ids: Sequence[int], start: int, decode: Decode) -> Iterator[str]:
    """Yield increasingly long ends of `token_ids[start:]` as text, at most `MAX_DECODED` tokens."""
    length = len(token_ids) - start
    size = _FIRST_DECODED
    while length > 0:
        yield decode(token_ids[-min(size, length) :])
        if size >= min(length, MAX_DECODED):
            return
        size *= _GROWTH


def _find_leads(table: CompiledFormat) -> dict[str, State]:
    """Return the markers that open or close reasoning, with their targets.

    One that is dropped within reasoning does neither, nor does a header that is no message's.
    """
    markers = table.markers
    outer = {**markers.get(State.HEADER, {}), **markers.get(State.CONTENT, {})}
    if not any(format_.has_channels for format_ in table.formats):
        outer = {}
    if table.initial_state is State.IGNORED:
        outside = {
            marker: target
            for marker, target in markers.get(State.IGNORED, {}).items()
            if not isinstance(target, ReuseSuffix)
        }
        inside = {**markers.get(State.REASONING, {}), **markers.get(State.CONTENT, {})}
        return {
            **dict.fromkeys(select(inside, {State.IGNORED}), State.IGNORED),
            **dict.fromkeys(select(outside, {State.START}), State.START),
            **dict.fromkeys(select(outside, {State.REASONING}), State.REASONING_OPENED),
        }
    left = (TEXT_STATES | {State.IGNORED}) - REASONING_STATES
    ends = select(markers.get(State.REASONING, {}), left)
    starts = select(markers.get(State.START, {}), {State.REASONING, State.REASONING_OPENED})
    return {
        **dict.fromkeys(select(outer, {State.HEADER}), State.HEADER),
        **dict.fromkeys(ends, State.START),
        **dict.fromkeys(starts, State.REASONING_OPENED),
    }


def _find_marker(leads: Mapping[str, State], text: str) -> tuple[int, State | None]:
    """Return position and state of the last marker in `text`; of two there, the longer."""
    found = ((text.rfind(marker.strip()), len(marker), marker) for marker in leads)
    start, _, marker = max(found, default=(-1, 0, ""))
    return start, leads[marker] if start >= 0 else None
