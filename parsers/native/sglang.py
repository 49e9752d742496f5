"""SGLang's own parsers: every name that its `--tool-call-parser` and `--reasoning-parser` know.

They are fed as SGLang's own server feeds them: what the reasoning parser does not
keep goes to the tool parser, and behind the last token both give out what they
held back (`OpenAIServingChat._process_reasoning_stream`, `_process_tool_call_stream`
and `_check_for_unstreamed_tool_args` in sglang/srt/entrypoints/openai/serving_chat.py).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sglang.srt.entrypoints.openai.protocol import Function, Tool
from sglang.srt.function_call.core_types import ToolCallItem
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

from ..base import ParserNames, ParserRequest, StreamParser
from ..errors import REASONING_FLAG, TOOL_CALL_FLAG
from ..events import Content, Event, Reasoning
from ..passthrough import PassthroughParser
from .common import (
    PROBE_TOOL,
    SentCalls,
    as_unusable,
    check_name,
    misfit,
    probe,
)
from .sglang_reasoning import BY_TEXT, ReasoningParsers

LOGGERS = "sglang.srt.function_call"
LOG_INTERVAL_S = 60
# The steps of a parser that takes one at a time are few: a name, its arguments, the next name.
MAX_STEPS = 256
# Formats that number the calls of a conversation in their ids.
CALL_IDS: dict[str | None, str] = {
    "kimi_k2": "functions.{name}:{number}",
    "kimi_k3": "{name}:{number}",
}
# Parsers that lose a marker which comes in pieces, and a marker that the family's tokenizers have as one token.
NEEDS_TOKEN = {
    (TOOL_CALL_FLAG, "deepseekv3"): "<｜tool▁calls▁begin｜>",  # noqa: RUF001 - the bars are the marker's own
    (TOOL_CALL_FLAG, "deepseekv31"): "<｜tool▁calls▁begin｜>",  # noqa: RUF001 - the bars are the marker's own
    (TOOL_CALL_FLAG, "gigachat3"): "<|message_sep|>",
    (TOOL_CALL_FLAG, "gpt-oss"): "<|channel|>",
    (TOOL_CALL_FLAG, "kimi_k2"): "<|tool_call_end|>",
    (TOOL_CALL_FLAG, "minimax-m2"): "<minimax:tool_call>",
    (REASONING_FLAG, "gpt-oss"): "<|channel|>",
}


def check_names(names: ParserNames, also_known: Iterable[str] = ()) -> None:
    """Raise `UnknownParserError` for a name that SGLang does not know. also_known: further names for the message."""
    check_name(TOOL_CALL_FLAG, names.tool_call, FunctionCallParser.ToolCallParserEnum, also_known)
    check_name(REASONING_FLAG, names.reasoning, ReasoningParser.DetectorMap, also_known)


class SglangParsers:
    """Makes the parsers of one model.

    tokenizer: SGLang's (transformers') tokenizer of the model, with its chat template.
    Raises `UnknownParserError` for a name SGLang does not know, and
    `UnusableParserError` for a parser that cannot be built on this tokenizer or
    cannot stream, so that no request finds out.
    """

    def __init__(self, tokenizer: Any, names: ParserNames) -> None:
        check_names(names)
        _log_sparsely()
        self.name = names.label
        self._tokenizer = tokenizer
        self._vocabulary = _Vocabulary(tokenizer)
        self._control_ids = {
            *tokenizer.all_special_ids,
            *getattr(tokenizer, "get_added_vocab", dict)().values(),
        }
        special = [
            token
            for token in self._control_ids
            if not tokenizer.decode([token], skip_special_tokens=True)
        ]
        self._special = {token_id: tokenizer.decode([token_id]) for token_id in special}
        self._names = names
        self._reasoning: ReasoningParsers | None = None
        if names.reasoning:
            with as_unusable("SGLang", REASONING_FLAG, names.reasoning):
                self._check_markers(REASONING_FLAG, names.reasoning)
                self._reasoning = ReasoningParsers(
                    names.reasoning, tokenizer, self._vocabulary, self._special
                )
                probe(self(ParserRequest(), []), tokenizer)
        if names.tool_call:
            with as_unusable("SGLang", TOOL_CALL_FLAG, names.tool_call):
                self._check_markers(TOOL_CALL_FLAG, names.tool_call)
                probe(self(ParserRequest(tools=[PROBE_TOOL], tool_choice="auto"), []), tokenizer)

    def shows_special_tokens(self, request: ParserRequest) -> bool:
        """See `ParserFactory`. SGLang's parsers read text only, so its server has all tokens shown for calls."""
        finds_calls = self._names.tool_call is not None and request.parses_own_syntax
        return finds_calls or (self._reasoning is not None and self._reasoning.has_special_markers)

    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        """See `ParserFactory`."""
        tools = self._tool_parser(request) if request.parses_own_syntax else None
        reasoning = None
        if self._reasoning is not None:
            reasoning = self._reasoning(
                request, prompt_token_ids, feeds_tool_parser=tools is not None
            )
        if tools is None and reasoning is None:
            return PassthroughParser()
        return NativeParser(
            tools,
            reasoning,
            self._control_ids,
            self._special,
            follows_text=self._names.reasoning in BY_TEXT,
            call_id=lambda name, index: self._call_id(name, request.history_tool_calls + index),
        )

    def _check_markers(self, flag: str, name: str) -> None:
        marker = NEEDS_TOKEN.get((flag, name))
        if marker and len(self._tokenizer.encode(marker, add_special_tokens=False)) > 1:
            reason = f"SGLang's parser of that name finds {marker} only as one token, and this model's tokenizer has none."
            raise misfit(flag, name, reason)

    def _tool_parser(self, request: ParserRequest) -> FunctionCallParser | None:
        """Return a new tool parser of SGLang's; None if the model has none."""
        if self._names.tool_call is None:
            return None
        return FunctionCallParser(
            [_tool(**tool["function"]) for tool in request.tools],
            self._names.tool_call,
            tokenizer=self._vocabulary,
        )

    def _call_id(self, name: str, number: int) -> str | None:
        form = CALL_IDS.get(self._names.tool_call)
        return form.format(name=name, number=number) if form else None


class NativeParser:
    """SGLang's parsers of one model behind the interface of ours, for one choice.

    tools, reasoning: SGLang's own; not both None.
    control_ids: tokens that are no text of the model's own. special: the text of those that are special.
    follows_text: the reasoning parser does not say itself whether it is in reasoning.
    call_id: the id that the format demands for a call's name and index.
    """

    token_aligned = True

    def __init__(
        self,
        tools: FunctionCallParser | None,
        reasoning: ReasoningParser | None,
        control_ids: set[int],
        special: Mapping[int, str],
        *,
        follows_text: bool,
        call_id: Callable[[str, int], str | None],
    ) -> None:
        self._tools = tools
        self._reasoning = reasoning
        self._control_ids = control_ids
        self._special = special
        self._call_id = call_id
        self._calls = SentCalls()
        # Our number of the last call with each of SGLang's, which may be the tool's place in the request.
        self._numbers: dict[int, int] = {}
        self._follows_text = follows_text
        self._unsure = 0
        self._phase = self._read_phase()
        self.in_reasoning = reasoning is not None if follows_text else self._phase[0]
        self.reasoning_tokens = 0

    def reads_together(self, token_ids: Sequence[int]) -> bool:
        """See `StreamParser`."""
        return len(token_ids) == 1

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        """See `StreamParser`."""
        # A token that shows nothing is no chunk for SGLang's parsers: to some, it would be the answer's start.
        events = list(self._read(text)) if text else []
        self._track(token_ids, events)
        return events

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        """See `StreamParser`."""
        events = [*self.feed(text or self._call_end(token_ids), token_ids), *self._held_reasoning()]
        if self._tools is not None:
            events += self._read_rest(self._tools)
            parsed = getattr(self._tools.detector, "prev_tool_call_arr", None) or ()
            events += () if cut else self._calls.unsent(parsed)
        self._track((), events)
        return events

    def _call_end(self, token_ids: Sequence[int]) -> str:
        """Return the text of the token that ended generation if it also ends a call, as gpt-oss's does.

        It is no text of the answer, but the tool parser waits for it, and SGLang's detokenizer lets it see it.
        """
        text = "".join(self._special.get(token_id, "") for token_id in token_ids)
        return text if self._tools is not None and text == self._tools.detector.eot_token else ""

    def _read(self, text: str) -> Iterator[Event]:
        """Yield what both parsers make of `text`."""
        if self._reasoning is not None:
            thought, text = self._reasoning.parse_stream_chunk(text)
            if thought:
                yield Reasoning(thought)
        yield from self._read_answer(text)

    def _held_reasoning(self) -> Iterator[Event]:
        """Yield what the reasoning parser held back, at the end."""
        if self._reasoning is None:
            return
        thought, text = self._reasoning.parse_stream_end()
        if thought:
            yield Reasoning(thought)
        yield from self._read_answer(text)

    def _read_answer(self, text: str | None) -> Iterator[Event]:
        """Yield what the tool parser makes of text that is no reasoning."""
        if text and self._tools is not None:
            yield from self._events(*self._tools.parse_stream_chunk(text))
        elif text:
            yield Content(text)

    def _read_rest(self, tools: FunctionCallParser) -> Iterator[Event]:
        """Yield what is left in the tool parser: many take one step per chunk, a name or its arguments."""
        for _ in range(MAX_STEPS):
            step = list(self._events(*tools.parse_stream_chunk("")))
            if not step:
                break
            yield from step
        yield from self._events(*tools.parse_stream_end())

    def _events(self, text: str, items: Sequence[ToolCallItem]) -> Iterator[Event]:
        """Yield the events of one step in the order in which the model wrote them.

        Within a call there is no text, so arguments of a call that is open stand before it.
        """
        for item in itertools.takewhile(lambda item: not item.name, items):
            yield from self._call(item)
        if text:
            yield Content(text)
        for item in itertools.dropwhile(lambda item: not item.name, items):
            yield from self._call(item)

    def _call(self, item: ToolCallItem) -> Iterator[Event]:
        if item.name:
            number = self._numbers[item.tool_index] = len(self._calls)
            yield self._calls.start(number, item.name, self._call_id(item.name, number))
        if item.parameters and item.tool_index in self._numbers:
            yield self._calls.argue(self._numbers[item.tool_index], item.parameters)

    def _read_phase(self) -> tuple[bool, bool]:
        """Return whether the reasoning parser says that it is in reasoning, and has passed the marker before it."""
        if self._reasoning is None:
            return False, False
        detector = self._reasoning.detector
        return detector._in_reasoning, detector.stripped_think_start  # noqa: SLF001 - the only place where SGLang says so

    def _track(self, token_ids: Sequence[int], events: list[Event]) -> None:
        """Follow whether the output is in its reasoning, and count its tokens.

        A token whose text is held back counts when text comes of it; that of a marker never does.
        """
        phase = self._read_phase()
        reasons = any(isinstance(event, Reasoning) for event in events)
        answers = any(not isinstance(event, Reasoning) for event in events)
        is_control = not self._control_ids.isdisjoint(token_ids)
        if self.in_reasoning and not is_control:
            self._unsure += len(token_ids)
        if reasons:
            self.reasoning_tokens += self._unsure
        if events or is_control or phase != self._phase:
            self._unsure = 0
        self._phase = phase
        if not self._follows_text:
            self.in_reasoning = phase[0]
        elif events:
            self.in_reasoning = not answers


class _Vocabulary:
    """All that SGLang's parsers ask of a tokenizer. Hunyuan's search its words for markers, anew for every request."""

    def __init__(self, tokenizer: Any) -> None:
        self._markers = {
            word: token_id
            for word, token_id in tokenizer.get_vocab().items()
            if isinstance(word, str) and word.startswith("<") and word.endswith(">")
        }

    def get_vocab(self) -> dict[str, int]:
        """Return the words that look like markers."""
        return self._markers


def _tool(name: str, description: str | None = None, parameters: Any = None, **_: Any) -> Tool:
    """Return a tool of the request in SGLang's own type, as far as its parsers read it."""
    return Tool(function=Function(name=name, description=description, parameters=parameters))


class _Sparse(logging.Filter):
    """Lets one record a minute pass from each line of code."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place = record.pathname, record.lineno
        passes = record.created - self._last.get(place, 0) >= LOG_INTERVAL_S
        if passes:
            self._last[place] = record.created
        return passes


_SPARSE = _Sparse()


def _log_sparsely() -> None:
    """Keep SGLang's parsers from flooding the log: many log what they cannot read again with every token behind it."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(LOGGERS):
            logging.getLogger(name).addFilter(_SPARSE)
