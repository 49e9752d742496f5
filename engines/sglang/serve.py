"""Our parsers in SGLang's own server, by the names of base/server_names.py.

SGLang has a detector for reasoning, which hands the rest of the text to one for calls. They get
text alone, so markers are found by their text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sglang.srt.entrypoints.openai.protocol import Tool, ToolChoice
from sglang.srt.function_call.base_format_detector import BaseFormatDetector
from sglang.srt.function_call.core_types import StreamingParseResult, StructureInfo, ToolCallItem
from sglang.srt.parser.reasoning_parser import BaseReasoningFormatDetector
from sglang.srt.parser.reasoning_parser import StreamingParseResult as ReasoningResult
from typing_extensions import override
from xgrammar import StructuralTag

from ...base.errors import SetupError, exiting
from ...base.seams import check_seams
from ...guided.call_policy import CallPolicy, ReasoningTags, find_call_format, read_reasoning_tags
from ...guided.guided_request import GuidedRequest, decode_request
from ...parsers.base import ParserNames, ParserRequest, StreamParser
from ...parsers.events import Event, Reasoning
from ...parsers.format import CALL_STATES, Format, find_markers
from ...parsers.linear_parsers import NONEMPTY, LinearParsers, Vocabulary
from ...parsers.parser_lookup import linear_parsers, reasoning_format
from ...postprocess.delta_builder import DeltaBuilder
from ...templates.auto_parsers import resolve_for_server
from . import parsers as native
from . import seams

# Stand for a prompt that begins reasoning, and for one that ends it.
BEGIN, END = (0,), (1,)


@dataclass(frozen=True)
class _Reasoning:
    """Parsers of reasoning, with the markers around it."""

    parsers: LinearParsers
    tags: ReasoningTags
    mode: str


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
    return _Reasoning(linear_parsers(names, vocabulary), tags, _find_mode(format_))


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
        found = [self.parse_streaming_increment(text, tools), self.finish(tools)]
        calls: dict[int, ToolCallItem] = {}
        for item in (item for part in found for item in part.calls):
            first = calls.setdefault(item.tool_index, item)
            if first is not item:
                first.parameters += item.parameters
        text = "".join(part.normal_text for part in found)
        return StreamingParseResult(normal_text=text, calls=list(calls.values()))

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
        deltas = [part.delta for part in self._builder.take()]
        calls = [
            ToolCallItem(
                tool_index=call.index,
                name=call.function.name,
                parameters=call.function.arguments,
            )
            for delta in deltas
            for call in delta.tool_calls
        ]
        text = "".join(delta.content or "" for delta in deltas)
        return StreamingParseResult(normal_text=text, calls=calls)


class ReasoningDetector(BaseReasoningFormatDetector):
    """Reads the reasoning of one choice. name: of our parser, or "auto"."""

    def __init__(
        self,
        name: str,
        *,
        tokenizer: object = None,
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
        self._parser = loaded.parsers(ParserRequest(chat_template_kwargs=kwargs), prompt)

    @override
    def detect_and_parse(self, text: str) -> ReasoningResult:
        found = [self.parse_streaming_increment(text), self.finish()]
        return ReasoningResult(
            "".join(part.normal_text for part in found),
            "".join(part.reasoning_text for part in found),
        )

    @override
    def parse_streaming_increment(self, new_text: str) -> ReasoningResult:
        return self._read(self._parser.feed(new_text), ended=False)

    @override
    def finish(self) -> ReasoningResult:
        return self._read(self._parser.finish(), ended=True)

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
