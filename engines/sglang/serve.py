"""Our parsers in SGLang's own server, by the names of base/server_names.py.

SGLang has a detector for reasoning, which hands the rest of the text to one for calls. They get
text alone, so markers are found by their text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from sglang.srt.entrypoints.openai.protocol import Tool, ToolChoice
from sglang.srt.function_call.base_format_detector import BaseFormatDetector
from sglang.srt.function_call.core_types import StreamingParseResult, StructureInfo, ToolCallItem
from sglang.srt.parser.reasoning_parser import BaseReasoningFormatDetector
from sglang.srt.parser.reasoning_parser import StreamingParseResult as ReasoningResult
from sglang.srt.runtime_context import get_serving
from typing_extensions import override
from xgrammar import StructuralTag

from ...base.errors import SetupError, exiting
from ...base.limits import MAX_CONSIDERED
from ...base.seams import check_seams
from ...base.server_names import find_own_name
from ...guided.call_policy import CallPolicy, ReasoningTags, find_call_format, read_reasoning_tags
from ...guided.guided_request import GuidedRequest, decode_request
from ...parsers.base import ParserNames, ParserRequest, StreamParser
from ...parsers.compiled_format import compile_format
from ...parsers.events import Content, Event, Reasoning
from ...parsers.format import CALL_STATES, REASONING_STATES, Format, find_markers
from ...parsers.linear_parsers import NONEMPTY, LinearParsers, Vocabulary
from ...parsers.parser_lookup import linear_parsers, reasoning_format, tool_format
from ...postprocess.delta_builder import DeltaBuilder, aggregate_deltas
from ...postprocess.messages import ChoiceDelta
from ...templates.auto_parsers import resolve_for_server
from . import parsers as native
from . import seams

# Stand for a prompt that begins reasoning, and for one that ends it.
BEGIN, END = (0,), (1,)


@dataclass(frozen=True)
class _Reasoning:
    """Parsers of reasoning, with the markers around it and all that end it."""

    parsers: LinearParsers
    tags: ReasoningTags
    mode: str
    ends: frozenset[str]


def _resolve(names: ParserNames, tokenizer: object) -> ParserNames:
    """Replace "auto" in `names` by what the tokenizer's chat template shows.

    Raises `SetupError` if nothing fits, and for a seam that does not hold.
    """
    check_seams(seams.SERVER, ("sglang",))
    template = getattr(tokenizer, "chat_template", None)
    return resolve_for_server(
        names,
        str(getattr(tokenizer, "name_or_path", "")),
        source=template if isinstance(template, str) else None,
    )


@functools.lru_cache(8)
def _load_calls(name: str, tokenizer: object) -> tuple[LinearParsers, Format | None]:
    names = _resolve(ParserNames(name, None), tokenizer)
    return linear_parsers(names, Vocabulary()), find_call_format(names)


@functools.lru_cache(8)
def _load_reasoning(name: str, tokenizer: object) -> _Reasoning:
    names = _resolve(ParserNames(None, name), tokenizer)
    format_ = reasoning_format(names.reasoning or "")
    tags = None if format_ is None else read_reasoning_tags(format_)
    if format_ is None or tags is None:
        raise SetupError(f"SGLang's server cannot have the reasoning parser {names.reasoning!r}.")
    texts = (tags.begins[0], tags.ends[0])
    vocabulary = Vocabulary(decode=lambda token_ids: texts[token_ids[0]] if token_ids else "")
    ends = compile_format(format_, None, {}).thought_ends
    return _Reasoning(linear_parsers(names, vocabulary), tags, _find_mode(format_), ends)


def find_call_parser() -> str | None:
    """Return the name of our parser of the server's calls; None for one of SGLang's."""
    return find_own_name(get_serving().tool_call_parser)


@functools.lru_cache(8)
def _load_markers(name: str, call_parser: str, tokenizer: object) -> re.Pattern[str] | None:
    """Return a pattern for the markers of calls in open reasoning, and for their beginnings."""
    names = _resolve(ParserNames(call_parser, name), tokenizer)
    table = compile_format(
        reasoning_format(names.reasoning or ""), tool_format(names.tool_call or ""), {}
    )
    markers = find_markers(table.markers, REASONING_STATES, CALL_STATES)
    if not markers:
        return None
    parts = {marker[:length] for marker in markers for length in range(1, len(marker))}
    whole, begun = (
        "|".join(map(re.escape, sorted(each, reverse=True))) for each in (markers, parts)
    )
    return re.compile(rf"({whole})|(?:{begun})\Z")


def _find_mode(format_: Format) -> str:
    """Return SGLang's word for when a model reasons whose template has no switch."""
    for flag, is_on in format_.thinking_flags.items():
        mode = flag if is_on else f"explicit_{flag}"
        if mode in native.MODES:
            return mode
    return "always"


class CallDetector(BaseFormatDetector):
    """Reads the calls of one choice. name: of our parser, or "auto"."""

    def __init__(self, name: str, tokenizer: object = None) -> None:
        super().__init__()
        with exiting():
            self._parsers, self._format = _load_calls(name, tokenizer)
        self._parser: StreamParser | None = None
        self._builder: DeltaBuilder

    @override
    def has_tool_call(self, text: str) -> bool:
        states = {} if self._format is None else self._format.states
        markers = find_markers(states, tuple(states), CALL_STATES)
        return not markers or any(marker in text for marker in markers)

    @override
    def detect_and_parse(self, text: str, tools: list[Tool]) -> StreamingParseResult:
        self._parser = None
        parser = self._begin(tools)
        for event in (*parser.feed(text), *parser.finish(cut=True)):
            self._builder.write(event)
        # SGLang does not say what ended the answer. An open call becomes text.
        opened = self._builder.open_calls(stopped=False)
        self._builder.finish("length", None, cut=False)
        return _join([aggregate_deltas(self._builder.take(), opened)])

    @override
    def parse_streaming_increment(self, new_text: str, tools: list[Tool]) -> StreamingParseResult:
        return self._take(self._begin(tools).feed(new_text))

    @override
    def finish(self, tools: list[Tool]) -> StreamingParseResult:
        # SGLang does not say whether a limit ended the answer, so an open call stays open.
        last = self._take(self._begin(tools).finish(cut=True))
        self._builder.finish("stop", None, cut=False)
        held = self._take(())
        return StreamingParseResult(
            normal_text=last.normal_text + held.normal_text, calls=last.calls + held.calls
        )

    @override
    def supports_structural_tag(self) -> bool:
        return False  # of the older form

    @override
    def parses_required_natively(self) -> bool:
        return True

    @override
    def structure_info(self) -> Callable[[str], StructureInfo]:
        raise NotImplementedError  # only for tags of the older form

    @override
    def get_structural_tag(
        self,
        tools: list[Tool] | None = None,
        tool_choice: ToolChoice | str = "auto",
        thinking_mode: bool = False,
        parallel_tool_calls: bool = True,
    ) -> StructuralTag | None:
        choice = tool_choice if isinstance(tool_choice, str) else tool_choice.model_dump()
        request = {
            "tools": [tool.model_dump() for tool in tools or ()],
            "tool_choice": choice,
            "parallel_tool_calls": parallel_tool_calls,
        }
        answer = CallPolicy(calls=self._format, always=True).constrain(
            decode_request(request, GuidedRequest)
        )
        tag = (answer or {}).get("structural_tag")
        return None if tag is None else StructuralTag.model_validate(tag)

    def _begin(self, tools: Sequence[Tool]) -> StreamParser:
        if self._parser is None:
            request = ParserRequest(tools=[tool.model_dump() for tool in tools], tool_choice="auto")
            self._parser = self._parsers(request, ())
            self._builder = DeltaBuilder(0, request, self._parsers.breaks_before_calls)
        return self._parser

    def _take(self, events: Iterable[Event]) -> StreamingParseResult:
        for event in events:
            self._builder.write(event)
        return _join(self._builder.take())


def _join(parts: Sequence[ChoiceDelta]) -> StreamingParseResult:
    """Return deltas in SGLang's form."""
    deltas = [part.delta for part in parts]
    calls = [
        ToolCallItem(
            tool_index=call.index, name=call.function.name, parameters=call.function.arguments
        )
        for delta in deltas
        for call in delta.tool_calls
    ]
    text = "".join(delta.content or "" for delta in deltas)
    return StreamingParseResult(normal_text=text, calls=calls)


class ThoughtReader:
    """Reads reasoning, and hands on the text of a call in a thought that does not end.

    Decides as `ConsideredCalls` of the parsers does; here another detector reads the call.

    calls: finds a marker that opens a call, or at the end the beginning of one; None for none.
    ends: the markers that end a thought.
    """

    def __init__(
        self, parser: StreamParser, calls: re.Pattern[str] | None, ends: Collection[str]
    ) -> None:
        self._parser = parser
        self._calls = calls
        self._ends = ends
        self._held = ""
        self._is_meant = False

    def feed(self, text: str) -> list[Event]:
        """Return the events that `text` completes; a call in reasoning waits."""
        if self._calls is None:
            return self._parser.feed(text)
        if self._is_meant:
            return [Content(text)]
        text, self._held = self._held + text, ""
        events: list[Event] = []
        position = 0
        while position < len(text):
            found = self._calls.search(text, position)
            start, end = found.span() if found else (len(text), len(text))
            events += self._parser.feed(text[position:start])
            if found and self._parser.in_reasoning:
                end = self._find_end(text, start)
            if not end:
                self._held = text[start:]
                is_full = len(self._held) >= MAX_CONSIDERED
                return events + (self._mean() if is_full else [])
            events += self._parser.feed(text[start:end])
            position = end
        return events

    def finish(self) -> list[Event]:
        """Return the last events. A call that waits is meant."""
        if self._is_meant:
            return []
        waits = self._calls and self._calls.match(self._held)
        is_call = waits is not None and waits.group(1) is not None
        return self._mean() if is_call else self._parser.finish(self._held)

    def _mean(self) -> list[Event]:
        self._is_meant = True
        thoughts = [event for event in self._parser.finish() if isinstance(event, Reasoning)]
        return [*thoughts, Content(self._held)]

    def _find_end(self, text: str, start: int) -> int:
        """Return where the first end of a thought that began before `start` ends; 0 without it."""
        limit = start + MAX_CONSIDERED
        found = ((text.find(end, start, limit), end) for end in self._ends)
        return min((at + len(end) for at, end in found if at >= 0), default=0)


class ReasoningDetector(BaseReasoningFormatDetector):
    """Reads the reasoning of one choice.

    name: of our parser, or "auto". call_parser: that of our parser of calls, which gets the rest
    of the text; None for another.
    """

    def __init__(
        self,
        name: str,
        *,
        tokenizer: object = None,
        call_parser: str | None = None,
        stream_reasoning: bool = True,
        force_reasoning: bool = False,
        **options: object,
    ) -> None:
        with exiting():
            loaded = _load_reasoning(name, tokenizer)
        tags = loaded.tags
        super().__init__(
            tags.begins[0],
            tags.ends[0],
            force_reasoning=force_reasoning,
            stream_reasoning=stream_reasoning,
            reasoning_default=loaded.mode,
            **options,
        )
        self._streams = stream_reasoning
        self._thoughts: list[str] = []
        prompt = BEGIN if self._in_reasoning else END
        kwargs = {NONEMPTY: options.get("force_nonempty_content")}
        parser = loaded.parsers(ParserRequest(chat_template_kwargs=kwargs), prompt)
        calls = _load_markers(name, call_parser, tokenizer) if call_parser else None
        self._reader = ThoughtReader(parser, calls, loaded.ends)

    @override
    def detect_and_parse(self, text: str) -> ReasoningResult:
        found = [self.parse_streaming_increment(text), self.finish()]
        return ReasoningResult(
            "".join(part.normal_text for part in found),
            "".join(part.reasoning_text for part in found),
        )

    @override
    def parse_streaming_increment(self, new_text: str) -> ReasoningResult:
        return self._read(self._reader.feed(new_text), ended=False)

    @override
    def finish(self) -> ReasoningResult:
        return self._read(self._reader.finish(), ended=True)

    def _read(self, events: Iterable[Event], *, ended: bool) -> ReasoningResult:
        text = ""
        for event in events:
            if isinstance(event, Reasoning):
                self._thoughts.append(event.text)
            else:
                text += getattr(event, "text", "")
        if not (self._streams or ended or text):
            return ReasoningResult()
        thought, self._thoughts = "".join(self._thoughts), []
        return ReasoningResult(text, thought)
