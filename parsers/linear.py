"""The linear parsers of one model: what the registry's tables say, for its vocabulary and each request's prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .base import ParserRequest, StreamParser
from .engine import LinearParser
from .format import TEXT_STATES, Format, State, Target, state_of
from .json_calls import with_json_calls
from .plain import PlainParser
from .schema import parameters_of
from .table import Table, compile_table

# How many tokens of the prompt's end are read for what they say of the answer.
MAX_TAIL = 64


@dataclass(frozen=True)
class Vocabulary:
    """What the parsers have to know of a tokenizer.

    ids: the added tokens' ids by their text. special: ids of those that are special.
    decode: token ids to text, special tokens included.
    """

    ids: Mapping[str, int] = field(default_factory=dict)
    special: frozenset[int] = frozenset()
    decode: Callable[[Sequence[int]], str] = lambda _: ""


class LinearParsers:
    """Makes the linear parsers of one model. See `ParserFactory`.

    tools, reasoning: the formats of tool calls and of reasoning; None for none.
    """

    def __init__(self, tools: Format | None, reasoning: Format | None, vocabulary: Vocabulary) -> None:
        self.name = "+".join(format_.name for format_ in (reasoning, tools) if format_ is not None) or "none"
        self._vocabulary = vocabulary
        self._reasoning = reasoning
        self._full = compile_table(reasoning, tools, vocabulary.ids)
        self._only_reasoning = compile_table(reasoning, None, vocabulary.ids)
        self._prompt_table = compile_table(reasoning, tools, {})

    def shows_special_tokens(self, request: ParserRequest) -> bool:
        """See `ParserFactory`. Markers are known by their ids, so none has to show."""
        return False

    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        """See `ParserFactory`."""
        reads_calls = request.parses_tools and not request.json_calls
        table = self._full if reads_calls else self._only_reasoning
        if not table.formats:
            return with_json_calls(PlainParser(), request)
        state = self._first_state(table, request, prompt_token_ids)
        return with_json_calls(LinearParser(table, parameters_of(request.tools), state), request)

    def _first_state(self, table: Table, request: ParserRequest, prompt_token_ids: Sequence[int]) -> State | None:
        """Return the state that the prompt leaves the output in, or None for the format's own."""
        text = self._vocabulary.decode(self._tail(table, prompt_token_ids))
        reasoning = self._reasoning
        decided = state_behind(table, text)
        if decided is None and table.headers:
            decided = state_behind_header(self._prompt_table, text)
        if decided is not None or reasoning is None or reasoning.begins is not State.START:
            return decided
        flags = request.chat_template_kwargs
        asked = [flags[flag] for flag in reasoning.thinking_flags if flag in flags]
        is_on = any(asked or reasoning.thinking_flags.values() or (True,))
        return State.OPENED if reasoning.thinks and is_on else State.START

    def _tail(self, table: Table, prompt_token_ids: Sequence[int]) -> list[int]:
        """Return the end of the prompt that belongs to the answer: behind the last special token that is no marker.

        What earlier turns have left in the prompt says nothing of this one.
        """
        end = len(prompt_token_ids)
        start = end
        while start > max(0, end - MAX_TAIL):
            token_id = prompt_token_ids[start - 1]
            if token_id in self._vocabulary.special and token_id not in table.ids:
                break
            start -= 1
        return list(prompt_token_ids[start:])


def state_behind(table: Table, text: str) -> State | None:
    """Return what the last marker of reasoning in `text` leads to; None if there is none."""
    opening = _markers(table.markers.get(State.START, {}), frozenset({State.REASONING, State.OPENED}))
    closing = _markers(table.markers.get(State.REASONING, {}), TEXT_STATES | {State.MARKUP})
    last = max(
        (
            (text.rfind(marker.strip()), len(marker), state)
            for markers, state in ((opening, State.OPENED), (closing, State.START))
            for marker in markers
        ),
        default=(-1, 0, None),
        key=lambda found: found[:2],
    )
    return last[2] if last[0] >= 0 else None


def state_behind_header(table: Table, text: str) -> State | None:
    """Return what the last header in `text` leads to, if it leads to text; None if it does not or there is none."""
    beginnings = {
        marker for by_marker in table.markers.values() for marker in _markers(by_marker, frozenset({State.HEADER}))
    }
    start = max((text.rfind(marker) for marker in beginnings), default=-1)
    if start < 0:
        return None
    parser = LinearParser(table, {})
    parser.feed(text[start:])
    state = parser.state
    return {State.REASONING: State.OPENED}.get(state, state) if state in TEXT_STATES else None


def _markers(markers: Mapping[str, Target], states: frozenset[State]) -> set[str]:
    return {marker for marker, target in markers.items() if marker and state_of(target) in states}
