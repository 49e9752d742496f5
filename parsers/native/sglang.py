"""SGLang's own parsers, by the names of its `--tool-call-parser` and `--reasoning-parser`.

They are fed as SGLang's own server feeds them: text that the reasoning parser does not keep goes
to the tool parser, and after the last token both return what they have held back.
Source: `OpenAIServingChat._process_reasoning_stream`, `_process_tool_call_stream` and
`_check_for_unstreamed_tool_args` in sglang/srt/entrypoints/openai/serving_chat.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from sglang.srt.entrypoints.openai.protocol import Function, Tool
from sglang.srt.function_call.core_types import ToolCallItem
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser
from typing_extensions import override

from ..base import ParserFactory, ParserNames, ParserRequest, StreamParser
from ..errors import REASONING_FLAG, TOOL_CALL_FLAG
from ..events import Content, Event, Reasoning
from ..passthrough import PassthroughParser
from .sent_calls import SentCalls
from .sglang_logs import throttle_logs
from .sglang_reasoning import BY_TEXT, ReasoningParserFactory, VocabularyTokenizer
from .startup_checks import (
    PROBE_TOOL,
    build_wrong_family_error,
    check_name,
    raise_unusable,
    try_parser,
)

# Many parsers take one step per chunk: a name, its arguments, the next name. A bound on the steps
# after the last chunk.
MAX_STEPS = 256
# Formats that number the calls of a conversation in their ids.
CALL_IDS: dict[str | None, str] = {
    "kimi_k2": "functions.{name}:{number}",
    "kimi_k3": "{name}:{number}",
}
_DEEPSEEK_CALLS = "<｜tool▁calls▁begin｜>"  # noqa: RUF001 - the bars are the marker's own
# Parsers that lose a marker which arrives in pieces, each with a marker that the tokenizers of its
# family have as one token.
NEEDS_TOKEN = {
    (TOOL_CALL_FLAG, "deepseekv3"): _DEEPSEEK_CALLS,
    (TOOL_CALL_FLAG, "deepseekv31"): _DEEPSEEK_CALLS,
    (TOOL_CALL_FLAG, "gigachat3"): "<|message_sep|>",
    (TOOL_CALL_FLAG, "gpt-oss"): "<|channel|>",
    (TOOL_CALL_FLAG, "kimi_k2"): "<|tool_call_end|>",
    (TOOL_CALL_FLAG, "minimax-m2"): "<minimax:tool_call>",
    (REASONING_FLAG, "gpt-oss"): "<|channel|>",
}


def check_names(names: ParserNames, also_known: Iterable[str] = ()) -> None:
    """Raise `UnknownParserError` for a name that SGLang does not know.

    also_known: further names that the message lists.
    """
    check_name(TOOL_CALL_FLAG, names.tool_call, FunctionCallParser.ToolCallParserEnum, also_known)
    check_name(REASONING_FLAG, names.reasoning, ReasoningParser.DetectorMap, also_known)


class SglangParsers(ParserFactory):
    """Makes a model's parsers from SGLang's.

    tokenizer: SGLang's (transformers') tokenizer of the model, with its chat template.
    Raises `UnknownParserError` for a name that SGLang does not know, and `UnusableParserError` for
    a parser that fails with this tokenizer or cannot stream.
    """

    def __init__(self, tokenizer: object, names: ParserNames) -> None:
        check_names(names)
        self.name = names.label
        throttle_logs()
        loaded = self._tokenizer = cast("VocabularyTokenizer", tokenizer)
        self._vocabulary = MarkerVocabulary(loaded)
        self._control_ids = {
            *loaded.all_special_ids,
            *getattr(loaded, "get_added_vocab", dict)().values(),
        }
        special = [
            token
            for token in self._control_ids
            if not loaded.decode([token], skip_special_tokens=True)
        ]
        self._special = {token_id: loaded.decode([token_id]) for token_id in special}
        self._names = names
        self._reasoning: ReasoningParserFactory | None = None
        if names.reasoning:
            with raise_unusable("SGLang", REASONING_FLAG, names.reasoning):
                self._check_markers(REASONING_FLAG, names.reasoning)
                self._reasoning = ReasoningParserFactory(
                    names.reasoning, loaded, self._vocabulary, self._special
                )
                try_parser(self(ParserRequest(), []), loaded)
        if names.tool_call:
            with raise_unusable("SGLang", TOOL_CALL_FLAG, names.tool_call):
                self._check_markers(TOOL_CALL_FLAG, names.tool_call)
                with_tools = ParserRequest(tools=[PROBE_TOOL], tool_choice="auto")
                try_parser(self(with_tools, []), loaded)

    @override
    def shows_special_tokens(self, request: ParserRequest) -> bool:
        # SGLang's tool parsers read text only, so its server shows them all tokens.
        finds_calls = self._names.tool_call is not None and request.parses_own_syntax
        return finds_calls or (self._reasoning is not None and self._reasoning.has_special_markers)

    @override
    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        tools = self._tool_parser(request) if request.parses_own_syntax else None
        reasoning = None
        if self._reasoning is not None:
            reasoning = self._reasoning(
                request, prompt_token_ids, feeds_tool_parser=tools is not None
            )
        if tools is None and reasoning is None:
            return PassthroughParser()
        return SglangStreamParser(
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
            reason = (
                f"SGLang's parser of that name finds {marker} only as one token, "
                "and this model's tokenizer has none."
            )
            raise build_wrong_family_error(flag, name, reason)

    def _tool_parser(self, request: ParserRequest) -> FunctionCallParser | None:
        """Return a new tool parser of SGLang's; None if no name was chosen."""
        if self._names.tool_call is None:
            return None
        return FunctionCallParser(
            [_build_tool(**tool["function"]) for tool in request.tools],
            self._names.tool_call,
            tokenizer=self._vocabulary,
        )

    def _call_id(self, name: str, number: int) -> str | None:
        form = CALL_IDS.get(self._names.tool_call)
        return form.format(name=name, number=number) if form else None


class SglangStreamParser(StreamParser):
    """Parses one choice with SGLang's parsers of the model.

    tools, reasoning: SGLang's parsers; at least one of them.
    control_ids: tokens that do not count as reasoning: special and added ones.
    special: the text of the special tokens, by id.
    follows_text: the reasoning parser does not say whether it is in reasoning; the events show it.
    call_id: returns the id that the format demands for a call, from its name and index.
    """

    token_aligned = True
    in_reasoning = False
    reasoning_tokens = 0

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
        # Our index of the last call for each `tool_index`, which may be the tool's place in the
        # request.
        self._indexes: dict[int, int] = {}
        self._follows_text = follows_text
        self._uncounted = 0  # tokens whose text is held back, so that their kind is not known
        self._phase = self._read_phase()
        self.in_reasoning = reasoning is not None if follows_text else self._phase[0]

    @override
    def reads_together(self, token_ids: Sequence[int]) -> bool:
        return len(token_ids) == 1

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        # A token without text is not fed: some of SGLang's parsers take it for the answer's start.
        events = list(self._read(text)) if text else []
        self._track(token_ids, events)
        return events

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events = [*self.feed(text or self._call_end(token_ids), token_ids), *self._held_reasoning()]
        if self._tools is not None:
            events += self._read_rest(self._tools)
            parsed = getattr(self._tools.detector, "prev_tool_call_arr", None) or ()
            events += () if cut else self._calls.send_rest(parsed)
        self._track((), events)
        return events

    def _call_end(self, token_ids: Sequence[int]) -> str:
        """Return the text of the token that ended generation if it also ends a call.

        gpt-oss has such a token. It is not text of the answer, but the tool parser waits for it and
        SGLang's detokenizer shows it.
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
        """Yield what the reasoning parser has held back until the end."""
        if self._reasoning is None:
            return
        thought, text = self._reasoning.parse_stream_end()
        if thought:
            yield Reasoning(thought)
        yield from self._read_answer(text)

    def _read_answer(self, text: str | None) -> Iterator[Event]:
        """Yield what the tool parser makes of text that is not reasoning."""
        if text and self._tools is not None:
            yield from self._events(*self._tools.parse_stream_chunk(text))
        elif text:
            yield Content(text)

    def _read_rest(self, tools: FunctionCallParser) -> Iterator[Event]:
        """Yield what is left in the tool parser."""
        for _ in range(MAX_STEPS):
            step = list(self._events(*tools.parse_stream_chunk("")))
            if not step:
                break
            yield from step
        yield from self._events(*tools.parse_stream_end())

    def _events(self, text: str, items: Sequence[ToolCallItem]) -> Iterator[Event]:
        """Yield the events of one step in the order in which the model wrote them.

        There is no text inside a call, so the arguments of an open call precede the text.
        """
        for item in itertools.takewhile(lambda item: not item.name, items):
            yield from self._call(item)
        if text:
            yield Content(text)
        for item in itertools.dropwhile(lambda item: not item.name, items):
            yield from self._call(item)

    def _call(self, item: ToolCallItem) -> Iterator[Event]:
        if item.name:
            index = self._indexes[item.tool_index] = len(self._calls)
            yield self._calls.start(index, item.name, self._call_id(item.name, index))
        if item.parameters and item.tool_index in self._indexes:
            yield self._calls.add_arguments(self._indexes[item.tool_index], item.parameters)

    def _read_phase(self) -> tuple[bool, bool]:
        """Return whether the reasoning parser is in reasoning, and has passed the start marker."""
        if self._reasoning is None:
            return False, False
        detector = self._reasoning.detector
        in_reasoning = detector._in_reasoning  # noqa: SLF001 - SGLang says it nowhere else
        return in_reasoning, detector.stripped_think_start

    def _track(self, token_ids: Sequence[int], events: list[Event]) -> None:
        """Update `in_reasoning` and `reasoning_tokens`.

        A token whose text is held back counts once its text is returned; a marker's never does.
        """
        phase = self._read_phase()
        reasons = any(isinstance(event, Reasoning) for event in events)
        answers = any(not isinstance(event, Reasoning) for event in events)
        is_control = not self._control_ids.isdisjoint(token_ids)
        if self.in_reasoning and not is_control:
            self._uncounted += len(token_ids)
        if reasons:
            self.reasoning_tokens += self._uncounted
        if events or is_control or phase != self._phase:
            self._uncounted = 0
        self._phase = phase
        if not self._follows_text:
            self.in_reasoning = phase[0]
        elif events:
            self.in_reasoning = not answers


class MarkerVocabulary:
    """The part of a tokenizer that SGLang's parsers use: words that may be markers.

    Hunyuan's parsers search it for every request, so it is small.
    """

    def __init__(self, tokenizer: VocabularyTokenizer) -> None:
        self._markers = {
            word: token_id
            for word, token_id in tokenizer.get_vocab().items()
            if isinstance(word, str) and word.startswith("<") and word.endswith(">")
        }

    def get_vocab(self) -> dict[str, int]:
        """Return the words that look like markers."""
        return self._markers


def _build_tool(
    name: str, description: str | None = None, parameters: object = None, **_: object
) -> Tool:
    """Return a tool of the request as SGLang's type, with the fields that its parsers read."""
    return Tool(function=Function(name=name, description=description, parameters=parameters))
