"""The linear parsers of one model: its formats, compiled for its vocabulary.

A new parser starts in the state that the end of the prompt has opened, for example in reasoning if
the chat template has already written the marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from typing_extensions import override

from .base import ParserFactory, ParserRequest, StreamParser
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

    ids: ids of the added tokens, by their text.
    special: ids of the special tokens among them.
    decode: token ids to text, special tokens included.
    """

    ids: Mapping[str, int] = field(default_factory=dict)
    special: frozenset[int] = frozenset()
    decode: Callable[[Sequence[int]], str] = lambda _: ""


class LinearParsers(ParserFactory):
    """Makes the linear parsers of one model.

    tools, reasoning: the formats of tool calls and of reasoning; None for none.
    Raises `UnusableParserError` for a format whose every answer begins with a header, if the
    vocabulary has none of its markers: all text would be a header.
    """

    def __init__(
        self, tools: Format | None, reasoning: Format | None, vocabulary: Vocabulary
    ) -> None:
        formats = [format_.name for format_ in (reasoning, tools) if format_ is not None]
        self.name = "+".join(formats) or "none"
        self._vocabulary = vocabulary
        self._reasoning = reasoning
        for flag, format_ in ((TOOL_CALL_FLAG, tools), (REASONING_FLAG, reasoning)):
            if format_ is not None:
                check_vocabulary(flag, format_, vocabulary)
        # One table for the output, one for the end of the prompt, which is read as text.
        vocabularies: tuple[Mapping[str, int], ...] = (vocabulary.ids, {})
        self._full = tuple(compile_format(reasoning, tools, ids) for ids in vocabularies)
        self._only_reasoning = tuple(compile_format(reasoning, None, ids) for ids in vocabularies)

    @override
    def shows_special_tokens(self, request: ParserRequest) -> bool:
        return False  # markers are known by their ids

    @override
    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        table, prompt_table = self._full if request.parses_own_syntax else self._only_reasoning
        if not table.formats:
            return PassthroughParser()
        tail = self._vocabulary.decode(self._answer_start(table, prompt_token_ids))
        state = self._choose_state(find_state(prompt_table, tail), request)
        return LinearParser(table, read_parameters(request.tools), state)

    def _choose_state(self, decided: State | None, request: ParserRequest) -> State | None:
        """Return the state of the first token; None for the format's own.

        decided: the state that the prompt has opened.
        """
        reasoning = self._reasoning
        if decided is not None or reasoning is None or reasoning.initial_state is not State.START:
            return decided
        flags = request.chat_template_kwargs
        asked = [flags[flag] for flag in reasoning.thinking_flags if flag in flags]
        is_on = any(asked or reasoning.thinking_flags.values() or (True,))
        return State.REASONING_OPENED if reasoning.thinks_by_default and is_on else State.START

    def _answer_start(self, table: CompiledFormat, prompt_token_ids: Sequence[int]) -> list[int]:
        """Return the prompt's tokens after the last special token that is not a marker."""
        special = self._vocabulary.special
        return answer_start(
            prompt_token_ids,
            lambda token: token in special and token not in table.ids and token not in table.parts,
        )


def check_vocabulary(flag: str, format_: Format, vocabulary: Vocabulary) -> None:
    """Raise `UnusableParserError` for a format that a model with this vocabulary cannot write."""
    opened_by_headers = State.HEADER in {
        target_state(target) for target in format_.states.get(State.START, {}).values()
    }
    markers = format_.states.get(State.HEADER, {})
    if opened_by_headers and vocabulary.ids and vocabulary.ids.keys().isdisjoint(markers):
        raise UnusableParserError(
            flag,
            format_.name,
            "it does not work with this model's tokenizer, "
            f"which has none of {', '.join(markers)}.",
            "Choose the parser of this model's family, or leave the flag out.",
        )


def find_state(table: CompiledFormat, text: str) -> State | None:
    """Return the text state that the last marker in `text` leads to.

    None if `text` has no marker, or the last one leads to another state.
    table: all its markers are found as text.
    """
    outer = {**table.markers.get(State.HEADER, {}), **table.markers.get(State.CONTENT, {})}
    leads = (
        (
            State.REASONING_OPENED,
            _select(table.markers.get(State.START, {}), {State.REASONING, State.REASONING_OPENED}),
        ),
        (
            State.START,
            _select(table.markers.get(State.REASONING, {}), TEXT_STATES | {State.IGNORED}),
        ),
        (State.HEADER, _select(outer, {State.HEADER})),
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


def _select(markers: Mapping[str, Target], states: AbstractSet[State]) -> set[str]:
    """Return the markers that lead to one of `states`."""
    return {
        marker for marker, target in markers.items() if marker and target_state(target) in states
    }
