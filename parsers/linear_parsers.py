"""The linear parsers of one model: what the registry's tables say, for its vocabulary and each request's prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from .base import ParserRequest, StreamParser
from .compiled_format import CompiledFormat, compile_format
from .errors import REASONING_FLAG, TOOL_CALL_FLAG, UnusableParserError
from .format import TEXT_STATES, Format, State, Target, target_state
from .passthrough import PassthroughParser
from .prompt_tail import answer_start
from .schema import read_parameters
from .state_machine import LinearParser


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
    Raises `UnusableParserError` for a format whose every answer begins with a
    header, if the vocabulary has none of its markers: all text would be a header.
    """

    def __init__(
        self, tools: Format | None, reasoning: Format | None, vocabulary: Vocabulary
    ) -> None:
        self.name = (
            "+".join(format_.name for format_ in (reasoning, tools) if format_ is not None)
            or "none"
        )
        self._vocabulary = vocabulary
        self._reasoning = reasoning
        for flag, format_ in ((TOOL_CALL_FLAG, tools), (REASONING_FLAG, reasoning)):
            if format_ is not None:
                check_fits(flag, format_, vocabulary)
        # For the output, and for the prompt's end, which is read as text.
        self._full = tuple(compile_format(reasoning, tools, ids) for ids in (vocabulary.ids, {}))
        self._only_reasoning = tuple(
            compile_format(reasoning, None, ids) for ids in (vocabulary.ids, {})
        )

    def shows_special_tokens(self, request: ParserRequest) -> bool:
        """See `ParserFactory`. Markers are known by their ids, so none has to show."""
        return False

    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        """See `ParserFactory`."""
        reads_calls = request.parses_tools and not request.json_calls
        table, prompt_table = self._full if reads_calls else self._only_reasoning
        if not table.formats:
            return PassthroughParser()
        tail = self._vocabulary.decode(self._tail(table, prompt_token_ids))
        state = self._first_state(state_behind(prompt_table, tail), request)
        return LinearParser(table, read_parameters(request.tools), state)

    def _first_state(self, decided: State | None, request: ParserRequest) -> State | None:
        """Return the state of the first token, or None for the format's own. decided: what the prompt says."""
        reasoning = self._reasoning
        if decided is not None or reasoning is None or reasoning.initial_state is not State.START:
            return decided
        flags = request.chat_template_kwargs
        asked = [flags[flag] for flag in reasoning.thinking_flags if flag in flags]
        is_on = any(asked or reasoning.thinking_flags.values() or (True,))
        return State.REASONING_OPENED if reasoning.thinks_by_default and is_on else State.START

    def _tail(self, table: CompiledFormat, prompt_token_ids: Sequence[int]) -> list[int]:
        """Return the end of the prompt that belongs to the answer: behind the last special token that is no marker."""
        special = self._vocabulary.special
        return answer_start(
            prompt_token_ids,
            lambda token: token in special and token not in table.ids and token not in table.parts,
        )


def check_fits(flag: str, format_: Format, vocabulary: Vocabulary) -> None:
    """Raise `UnusableParserError` for a format that the vocabulary's model cannot write; see `LinearParsers`."""
    opened_by_headers = State.HEADER in {
        target_state(target) for target in format_.states.get(State.START, {}).values()
    }
    markers = format_.states.get(State.HEADER, {})
    if opened_by_headers and vocabulary.ids and vocabulary.ids.keys().isdisjoint(markers):
        raise UnusableParserError(
            flag,
            format_.name,
            f"it does not work with this model's tokenizer, which has none of {', '.join(markers)}.",
            "Choose the parser of this model's family, or leave the flag out.",
        )


def state_behind(table: CompiledFormat, text: str) -> State | None:
    """Return the text state that the last marker in `text` leads to; None if there is none, or it leads elsewhere.

    table: of markers that are all found as text.
    """
    outer = {**table.markers.get(State.HEADER, {}), **table.markers.get(State.CONTENT, {})}
    leads = (
        (
            State.REASONING_OPENED,
            _markers(table.markers.get(State.START, {}), {State.REASONING, State.REASONING_OPENED}),
        ),
        (
            State.START,
            _markers(table.markers.get(State.REASONING, {}), TEXT_STATES | {State.IGNORED}),
        ),
        (State.HEADER, _markers(outer, {State.HEADER})),
    )
    found = [
        (text.rfind(marker.strip()), len(marker), state)
        for state, markers in leads
        for marker in markers
    ]
    start, _, state = max(found, default=(-1, 0, State.START), key=lambda last: last[:2])
    if start < 0:
        return None
    if state is not State.HEADER:
        return state
    parser = LinearParser(table, {})
    parser.feed(text[start:])
    if parser.state is State.REASONING:
        return State.REASONING_OPENED
    return parser.state if parser.state in TEXT_STATES else None


def _markers(markers: Mapping[str, Target], states: AbstractSet[State]) -> set[str]:
    return {
        marker for marker, target in markers.items() if marker and target_state(target) in states
    }
