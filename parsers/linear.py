"""The linear parsers of one model: what the registry's tables say, for its vocabulary and each request's prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .base import ParserRequest, StreamParser
from .engine import LinearParser
from .format import TEXT_STATES, Format, State, Target
from .json_calls import with_json_calls
from .plain import PlainParser
from .schema import parameters_of
from .table import Table, compile_table, state_of

# How far back a prompt is read for markers that are no tokens of their own.
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

    def shows_special_tokens(self, request: ParserRequest) -> bool:
        """See `ParserFactory`. Markers are known by their ids, so none has to show."""
        return False

    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        """See `ParserFactory`."""
        reads_calls = request.parses_tools and not request.json_calls
        table = self._full if reads_calls else self._only_reasoning
        if not table.formats:
            return with_json_calls(PlainParser(), request)
        state = self._first_state(table, request, prompt_token_ids) if self._reasoning is not None else None
        return with_json_calls(LinearParser(table, parameters_of(request.tools), state), request)

    def _first_state(self, table: Table, request: ParserRequest, prompt_token_ids: Sequence[int]) -> State | None:
        """Return the state that the prompt leaves the output in, or None for the format's own."""
        reasoning = self._reasoning
        assert reasoning is not None
        if reasoning.begins is not State.START:
            return None
        tail = self._tail(table, prompt_token_ids)
        decided = _last_marker(table, tail, self._vocabulary.decode)
        if decided is not None:
            return decided
        flags = request.chat_template_kwargs
        if not all(flags.get(flag, default) for flag, default in reasoning.thinking_flags.items()):
            return State.START
        return State.OPENED if reasoning.thinks else State.START

    def _tail(self, table: Table, prompt_token_ids: Sequence[int]) -> list[int]:
        """Return the end of the prompt that belongs to the answer: behind the last special token that is no marker.

        What earlier turns have left in the prompt says nothing of this one.
        """
        start = len(prompt_token_ids)
        while start > 0:
            token_id = prompt_token_ids[start - 1]
            if token_id in self._vocabulary.special and token_id not in table.ids:
                break
            start -= 1
        return list(prompt_token_ids[start:])


def _last_marker(table: Table, tail: list[int], decode: Callable[[Sequence[int]], str]) -> State | None:
    """Return what the last marker of reasoning in `tail` leads to; None if there is none."""
    opening = _markers(table.markers.get(State.START, {}), lambda state: state is State.REASONING)
    closing = _markers(
        table.markers.get(State.REASONING, {}), lambda state: state in TEXT_STATES or state is State.MARKUP
    )
    for token_id in reversed(tail):
        marker = table.ids.get(token_id)
        if marker in opening:
            return State.OPENED
        if marker in closing:
            return State.START
    tokens = set(table.ids.values())
    leads = ((opening, State.OPENED), (closing, State.START))
    texts = {marker.strip(): state for markers, state in leads for marker in markers - tokens}
    if not texts:
        return None
    text = decode(tail[-MAX_TAIL:])
    position, last = max((text.rfind(marker), marker) for marker in texts)
    return texts[last] if position >= 0 else None


def _markers(markers: Mapping[str, Target], leads: Callable[[State], bool]) -> set[str]:
    return {marker for marker, target in markers.items() if marker and leads(state_of(target))}
