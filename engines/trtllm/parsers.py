"""TensorRT-LLM's own parsers, by the names of its `--tool_parser` and `--reasoning_parser`.

They are fed as in TensorRT-LLM's own server: the reasoning parser passes other text on to the tool
parser.
Source: `apply_reasoning_parser` and `apply_tool_parser` in
tensorrt_llm/serve/postprocess_handlers.py.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol, cast

from tensorrt_llm.llmapi.reasoning_parser import ReasoningParserFactory
from tensorrt_llm.serve.openai_protocol import ChatCompletionToolsParam, FunctionDefinition
from tensorrt_llm.serve.tool_parser.tool_parser_factory import ToolParserFactory
from typing_extensions import override

from ...base.errors import TOOL_CALL_FLAG
from ...base.limits import MAX_DECODED
from ...parsers.base import ParserFactory, ParserNames, ParserRequest, StreamParser
from ...parsers.events import Event
from ...parsers.native import startup_checks
from ...parsers.native.call_items import CallItem, CallItems
from ...parsers.native.reasoning_count import CountingParser, Phase
from ...parsers.passthrough import PassthroughParser


class ToolStep(Protocol):
    """The result of TensorRT-LLM's tool parsers."""

    normal_text: str
    calls: Sequence[CallItem]


class ToolParser(Protocol):
    """`tensorrt_llm.serve.tool_parser.base_tool_parser.BaseToolParser`."""

    needs_raw_special_tokens: bool
    prev_tool_call_arr: Sequence[object]

    def parse_streaming_increment(self, new_text: str, tools: Sequence[object]) -> ToolStep:
        """Return the output for `new_text`."""


class ReasoningStep(Protocol):
    """The result of TensorRT-LLM's reasoning parsers."""

    content: str
    reasoning_content: str


class ReasoningParser(Protocol):
    """`tensorrt_llm.llmapi.reasoning_parser.BaseReasoningParser`."""

    def parse_delta(self, delta_text: str) -> ReasoningStep:
        """Return the output for `delta_text`."""

    def finish(self) -> ReasoningStep:
        """Return what was held back."""


def known_names(flag: str) -> list[str]:
    """Return the names that TensorRT-LLM knows for one of the two flags."""
    is_tool_call = flag == TOOL_CALL_FLAG
    return list(ToolParserFactory.parsers if is_tool_call else ReasoningParserFactory.keys())


check_names = functools.partial(startup_checks.check_registered, known_names)


class TrtllmParsers(ParserFactory):
    """Builds a model's parsers from TensorRT-LLM's.

    tokenizer: the model's, of transformers.
    Raises `UnknownParserError` for a name that TensorRT-LLM does not know, and
    `UnusableParserError` for a parser that fails.
    """

    def __init__(self, tokenizer: object, names: ParserNames) -> None:
        check_names(names)
        self.name = names.label
        self._names = names
        self._tokenizer = cast("startup_checks.EngineTokenizer", tokenizer)
        self._control_ids = frozenset(
            (
                *getattr(tokenizer, "all_special_ids", ()),
                *getattr(tokenizer, "get_added_vocab", dict)().values(),
            )
        )
        startup_checks.try_parsers("TensorRT-LLM", self, names, tokenizer)

    @override
    def shows_special_tokens(self, request: ParserRequest) -> bool:
        names = self._names
        if names.tool_call and request.parses_own_syntax:
            parser = ToolParserFactory.parsers[names.tool_call]
            if getattr(parser, "needs_raw_special_tokens", False):
                return True
        return bool(
            names.reasoning and ReasoningParserFactory.needs_raw_special_tokens(names.reasoning)
        )

    @override
    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        names = self._names
        tools: ToolParser | None = None
        if names.tool_call and request.parses_own_syntax:
            tools = ToolParserFactory.create_tool_parser(names.tool_call)
        reasoning: ReasoningParser | None = None
        if names.reasoning:
            reasoning = ReasoningParserFactory.create_reasoning_parser(
                names.reasoning, self._template_kwargs(names.reasoning, request, prompt_token_ids)
            )
        if tools is None and reasoning is None:
            return PassthroughParser()
        items = CallItems(names.tool_call, request.history_tool_calls)
        return TrtllmStreamParser(tools, reasoning, items, build_tools(request), self._control_ids)

    def _template_kwargs(
        self, name: str, request: ParserRequest, prompt_token_ids: Sequence[int]
    ) -> dict[str, object]:
        """Return the request's `chat_template_kwargs`, as TensorRT-LLM's server completes them.

        For some parsers it derives from the end of the prompt whether the model is to think.
        """
        kwargs = dict(request.chat_template_kwargs)
        reads_prompt = getattr(ReasoningParserFactory, "resolves_thinking_from_prompt", None)
        if reads_prompt is not None and reads_prompt(name):
            tail = self._tokenizer.decode(list(prompt_token_ids[-MAX_DECODED:]))
            thinks = ReasoningParserFactory.resolve_prefilled_thinking(name, tail)
            if thinks is not None:
                kwargs["enable_thinking"] = thinks
        return kwargs


def build_tools(request: ParserRequest) -> list[object]:
    """Return the request's tools as TensorRT-LLM's type, with the fields that its parsers read."""
    fields = ("name", "description", "parameters")
    functions = (tool["function"] for tool in request.tools)
    return [
        ChatCompletionToolsParam(
            type="function",
            function=FunctionDefinition(
                **{field: function[field] for field in fields if field in function}
            ),
        )
        for function in functions
    ]


class TrtllmStreamParser(CountingParser[ToolParser, ReasoningParser]):
    """Parses one choice with TensorRT-LLM's parsers of the model.

    request_tools: the request's, in TensorRT-LLM's form.
    """

    def __init__(
        self,
        tools: ToolParser | None,
        reasoning: ReasoningParser | None,
        items: CallItems,
        request_tools: list[object],
        control_ids: AbstractSet[int],
    ) -> None:
        self._request_tools = request_tools
        super().__init__(tools, reasoning, items, control_ids)

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events = self.feed(text, token_ids)
        held: list[Event] = []
        if self.reasoning is not None:
            step = self.reasoning.finish()
            held += self.read(step.reasoning_content, step.content)
        if (tools := self.tools) is not None:
            held += self.items.read_rest(lambda: self.find_calls(tools, ""))
            held += () if cut else self.items.calls.send_rest(tools.prev_tool_call_arr)
        self.track((), held)
        return events + held

    @override
    def split(self, reasoning: ReasoningParser, text: str) -> tuple[str, str]:
        step = reasoning.parse_delta(text)
        return step.reasoning_content, step.content

    @override
    def find_calls(self, tools: ToolParser, text: str) -> tuple[str, Sequence[CallItem]]:
        step = tools.parse_streaming_increment(text, self._request_tools)
        return step.normal_text, step.calls

    @override
    def read_phase(self, reasoning: ReasoningParser) -> Phase:
        phase = getattr(reasoning, "in_reasoning", None)
        return (phase if isinstance(phase, bool) else None), None
