"""The linear parsers of one model: its formats, compiled for its vocabulary.

A new parser starts in the state that the end of the prompt opened, for example in reasoning if the
chat template has already written the marker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import override

from ..base.errors import REASONING_FLAG, TOOL_CALL_FLAG, UnusableParserError
from .base import ParserFactory, ParserRequest, ParserWrapper, StreamParser
from .compiled_format import CompiledFormat, compile_format
from .events import Content, Event, Reasoning, ToolCallStarted
from .format import Format, State, target_state
from .formats.fragments import variant
from .machine import LinearParser
from .passthrough import PassthroughParser
from .prompt_tail import PromptReader
from .schema import read_parameters

# The chat_template_kwargs with which a request asks for `NonemptyContent`.
NONEMPTY = "force_nonempty_content"


@dataclass(frozen=True)
class Vocabulary:
    """The parts of a tokenizer that parsers need.

    ids: ids of the added tokens, by their text.
    special: ids of the special tokens among them.
    decode: token ids to text, special tokens included.
    """

    ids: Mapping[str, int] = field(default_factory=dict)
    special: frozenset[int] = frozenset()
    decode: Callable[[Sequence[int]], str] = lambda _: ""


class LinearParsers(ParserFactory):
    """Builds the linear parsers of one model.

    tools, reasoning: the formats of tool calls and of reasoning; None for none.
    Raises `UnusableParserError` if every answer in a format begins with a header, but the
    vocabulary has none of its markers: all text would be a header.
    """

    def __init__(
        self, tools: Format | None, reasoning: Format | None, vocabulary: Vocabulary
    ) -> None:
        formats = [format_.name for format_ in (reasoning, tools) if format_ is not None]
        self.name = "+".join(formats) or "none"
        self.breaks_before_calls = tools.breaks_before_calls if tools is not None else None
        self._vocabulary = vocabulary
        same = tools is reasoning
        tools = spell_markers(tools, vocabulary.ids) if tools is not None else None
        if same:
            reasoning = tools  # one format, used for both
        elif reasoning is not None:
            reasoning = spell_markers(reasoning, vocabulary.ids)
        self._reasoning = reasoning
        for flag, format_ in ((TOOL_CALL_FLAG, tools), (REASONING_FLAG, reasoning)):
            if format_ is not None:
                check_vocabulary(flag, format_, vocabulary)
        self._full = self._compile(reasoning, tools)
        # Channels are read whatever the request asks for.
        channels = tools if tools is not None and tools.has_channels else reasoning
        self._without_calls = self._compile(channels, None)
        self._guided = compile_format(reasoning, None, vocabulary.ids, guided=True)

    @override
    def shows_special_tokens(self, request: ParserRequest) -> bool:
        return False  # markers are recognized by their ids

    @override
    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        # Calls are parsed even if forbidden, so that their markup does not become text.
        reads_calls = bool(request.tools) and not request.json_calls
        table, prompts = self._full if reads_calls else self._without_calls
        if request.json_calls:
            table = self._guided
        if not table.formats:
            return PassthroughParser()
        state = self._choose_state(prompts.read(prompt_token_ids), request)
        parameters = read_parameters(request.tools)
        parser = LinearParser(table, parameters, state, guesses=request.guesses)
        asks = self._reasoning is not None and request.chat_template_kwargs.get(NONEMPTY) is True
        return NonemptyContent(parser) if asks else parser

    def _compile(
        self, reasoning: Format | None, tools: Format | None
    ) -> tuple[CompiledFormat, PromptReader]:
        """Return the table for outputs, and the reader of prompts."""
        vocabulary = self._vocabulary
        table = compile_format(reasoning, tools, vocabulary.ids)
        text_table = compile_format(reasoning, tools, {})
        return table, PromptReader(table, text_table, vocabulary.special, vocabulary.decode)

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


def spell_markers(format_: Format, tokens: Collection[str]) -> Format:
    """Return `format_` with the vocabulary's spelling of its markers, in its grammar as well.

    tokens: the added tokens. A token that equals a marker with the format's suffix inserted
        before its last character replaces that marker.
    """
    if format_.suffix is None:
        return format_
    plain = {format_.suffix.sub("", token): token for token in tokens}
    known = {marker for by_marker in format_.states.values() for marker in by_marker}
    spelt = {marker: plain[marker] for marker in known & plain.keys() if marker not in tokens}
    aliases, source = format_.aliases, format_.source
    return variant(format_, format_.name, aliases=aliases, markers=spelt, source=source)


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


class NonemptyContent(ParserWrapper):
    """Repeats the reasoning as content at the end of an answer without anything else.

    Keeps the reasoning until the first content or call.
    Source: vllm 0.31 parser/nemotron_v3.py, sglang parser/reasoning_parser.py. Without a stream
    both then omit the reasoning, which a stream has already sent.
    """

    def __init__(self, inner: StreamParser) -> None:
        super().__init__(inner)
        self._reasoning: list[str] | None = []

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return self._keep(self._inner.feed(text, token_ids))

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events = self._keep(self._inner.finish(text, token_ids, cut=cut))
        reasoning, self._reasoning = "".join(self._reasoning or ()), None
        return [*events, Content(reasoning)] if reasoning else events

    def _keep(self, events: list[Event]) -> list[Event]:
        """Keep the reasoning in `events`; drop it at the first content or call."""
        for event in events:
            match event:
                case ToolCallStarted():
                    self._reasoning = None
                case Content(content) if content.strip():
                    self._reasoning = None
                case Reasoning(thought) if self._reasoning is not None:
                    self._reasoning.append(thought)
                case _:
                    pass
        return events
