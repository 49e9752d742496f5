"""vLLM's own parsers: every name that `--tool-call-parser` and `--reasoning-parser` know.

They are reached through `vllm.parser.Parser.parse_delta`, the interface that
vLLM's own server uses, so plugins and models with a parser of their own
(Harmony, Kimi K3, Cohere) behave here as they do there.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vllm.entrypoints.generate.base.protocol import DeltaMessage
from vllm.entrypoints.openai.chat_completion.protocol import (
    ChatCompletionNamedToolChoiceParam,
    ChatCompletionRequest,
    ChatCompletionToolsParam,
)
from vllm.parser import ParserManager
from vllm.parser.abstract_parser import DelegatingParser, Parser
from vllm.parser.harmony import HarmonyParser
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
from vllm.utils.import_utils import import_from_path

from ..base import ParserNames, ParserRequest, StreamParser
from ..errors import REASONING_FLAG, TOOL_CALL_FLAG, SetupError
from ..events import Content, Event, Reasoning
from ..passthrough import PassthroughParser
from .common import (
    PROBE_TEXT,
    PROBE_TOOL,
    SentCalls,
    as_unusable,
    check_name,
    probe,
)

PLUGIN_FLAG = "--tool-parser-plugin"
CANNOT_STREAM = {
    "phi4_mini_json": "vLLM's parser of that name gives nothing at all, neither calls nor text, when it streams.",
}


def load_tool_parser_plugin(path: str) -> None:
    """Import a user's module or file that registers tool parsers.

    vLLM's own loader logs what goes wrong and goes on without the parser.
    Raises `SetupError` with the cause.
    """
    try:
        try:
            importlib.import_module(path)
        except ModuleNotFoundError:
            import_from_path(Path(path).stem, path)
    except Exception as error:
        # A plugin is the user's code and may raise anything.
        reason = f"{type(error).__name__}: {error}"
        raise SetupError(f"{PLUGIN_FLAG} {path!r} cannot be imported ({reason}).") from error


def check_names(names: ParserNames, also_known: Iterable[str] = ()) -> None:
    """Raise `UnknownParserError` for a name that vLLM does not register; imports no parser.

    also_known: further names for the message.
    """
    check_name(TOOL_CALL_FLAG, names.tool_call, ToolParserManager.list_registered(), also_known)
    check_name(
        REASONING_FLAG, names.reasoning, ReasoningParserManager.list_registered(), also_known
    )


class VllmParsers:
    """Makes the parsers of one model.

    tokenizer: vLLM's tokenizer of the model.
    model_config: vLLM's ModelConfig; some parsers read the architecture from it.
    Raises `UnknownParserError` for a name vLLM does not register, and
    `UnusableParserError` for a parser that cannot be built on this tokenizer or
    cannot stream, so that no request finds out (ai-dynamo/dynamo 14936).
    """

    def __init__(
        self,
        tokenizer: Any,
        names: ParserNames,
        model_config: Any = None,
    ) -> None:
        check_names(names)
        self.name = names.label
        self._tokenizer = tokenizer
        self._model_config = model_config
        self._shows: dict[bool, bool] = {}
        self._reasoning_class: type[Parser] | None = None
        self._full_class: type[Parser] | None = None
        if names.reasoning:
            with as_unusable("vLLM", REASONING_FLAG, names.reasoning, CANNOT_STREAM):
                only_reasoning = ParserNames(reasoning=names.reasoning)
                self._reasoning_class = self._full_class = self._parser_class(only_reasoning)
                self._probe(ParserRequest())
        if names.tool_call:
            with as_unusable("vLLM", TOOL_CALL_FLAG, names.tool_call, CANNOT_STREAM):
                self._full_class = self._parser_class(names)
                self._probe(ParserRequest(tools=[PROBE_TOOL], tool_choice="auto"))

    def shows_special_tokens(self, request: ParserRequest) -> bool:
        """See `ParserFactory`. vLLM's parsers say so by adjusting the request."""
        native_calls = request.parses_own_syntax
        if native_calls not in self._shows:
            chat_request = _chat_request(request)
            parser = self._parser(request, chat_request)
            for part in (parser.reasoning_parser, parser.tool_parser) if parser is not None else ():
                if part is not None:
                    chat_request = part.adjust_request(chat_request)
            self._shows[native_calls] = chat_request.skip_special_tokens is False
        return self._shows[native_calls]

    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        """See `ParserFactory`."""
        chat_request = _chat_request(request)
        parser = self._parser(request, chat_request)
        if parser is None:
            return PassthroughParser()
        stream_class = HarmonyStreamParser if isinstance(parser, HarmonyParser) else NativeParser
        return stream_class(parser, chat_request, prompt_token_ids)

    def _parser(self, request: ParserRequest, chat_request: ChatCompletionRequest) -> Parser | None:
        """Return a new parser of vLLM's, or None if nothing of this request is to be parsed."""
        parser_class = self._full_class if request.parses_own_syntax else self._reasoning_class
        if parser_class is None:
            return None
        return parser_class(
            self._tokenizer,
            chat_request.tools,
            chat_template_kwargs=request.chat_template_kwargs,
            model_config=self._model_config,
        )

    def _parser_class(self, names: ParserNames) -> type[Parser] | None:
        hf_config = getattr(self._model_config, "hf_config", None)
        parser_class: type[Parser] | None = ParserManager.get_parser(
            tool_parser_name=names.tool_call,
            reasoning_parser_name=names.reasoning,
            enable_auto_tools=True,
            is_harmony=getattr(hf_config, "model_type", None) == "gpt_oss",
        )
        return parser_class

    def _probe(self, request: ParserRequest) -> None:
        """Build the parser and feed it a few tokens, as every request will."""
        self.shows_special_tokens(request)
        parser = self(request, [])
        probe(parser, self._tokenizer)
        if isinstance(parser, NativeParser):
            last = self._tokenizer.encode(PROBE_TEXT, add_special_tokens=False)[-1]
            parser.probe_reasoning(self._tokenizer.decode([last]), last)


class NativeParser:
    """One of vLLM's parsers behind the interface of ours, for one choice."""

    token_aligned = True

    def __init__(
        self, parser: Parser, request: ChatCompletionRequest, prompt_token_ids: Sequence[int]
    ) -> None:
        self._parser = parser
        self._request = request
        self._prompt_token_ids = list(prompt_token_ids)
        self._calls = SentCalls()
        self._delegates = type(parser).parse_delta is DelegatingParser.parse_delta
        self._only_reasons = self._delegates and parser.tool_parser is None
        self.reasoning_tokens = 0
        reasoning = parser.reasoning_parser
        self._markers = (
            (reasoning.reasoning_start_str, reasoning.reasoning_end_str) if reasoning else ()
        )
        self.in_reasoning = reasoning is not None and not parser.is_reasoning_end(
            self._prompt_token_ids
        )

    def reads_together(self, token_ids: Sequence[int]) -> bool:
        """See `StreamParser`."""
        return len(token_ids) == 1

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        """See `StreamParser`."""
        if self._only_reasons and self._parser._stream_state.reasoning_ended:  # noqa: SLF001 - see _track
            # What vLLM's parser would do from here on, without building a message for it.
            return [Content(text)] if text else []
        return self._read(text, token_ids, finished=False)

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        """See `StreamParser`."""
        events = self._read(text, token_ids, finished=True)
        parsed = getattr(self._parser.tool_parser, "prev_tool_call_arr", None) or []
        return events if cut else events + list(self._calls.unsent(parsed))

    def probe_reasoning(self, text: str, token_id: int) -> None:
        """Raise NotImplementedError if the reasoning parser cannot split a stream.

        A boundary-only parser says of every prompt that reasoning is over, so
        feeding it shows nothing: its reasoning would silently become content.
        """
        if self._delegates and (reasoning_parser := self._parser.reasoning_parser) is not None:
            reasoning_parser.extract_reasoning_streaming("", text, text, [], [token_id], [token_id])

    def _read(self, text: str, token_ids: Sequence[int], *, finished: bool) -> list[Event]:
        message = self._parser.parse_delta(
            text, list(token_ids), self._request, self._prompt_token_ids, finished=finished
        )
        events = [] if message is None else list(self._events(message))
        self._track(text, token_ids, events)
        return events

    def _track(self, text: str, token_ids: Sequence[int], events: list[Event]) -> None:
        """Follow whether the output is in its reasoning, and count its tokens."""
        ended = self._parser._stream_state.reasoning_ended  # noqa: SLF001 - the only place where vLLM says so
        if self.in_reasoning and (
            ended or any(not isinstance(event, Reasoning) for event in events)
        ):
            self.in_reasoning = False
        elif self.in_reasoning and text not in self._markers:
            self.reasoning_tokens += len(token_ids)

    def _events(self, message: DeltaMessage) -> Iterator[Event]:
        """Yield the events of `message` in the order in which the model wrote them."""
        if message.reasoning:
            yield Reasoning(message.reasoning)
        if message.content:
            yield Content(message.content)
        for call in message.tool_calls or ():
            function = call.function
            if function is None:
                continue
            if function.name and call.index not in self._calls:
                yield self._calls.start(call.index, function.name, call.id)
            if function.arguments and call.index in self._calls:
                yield self._calls.argue(call.index, function.arguments)


class HarmonyStreamParser(NativeParser):
    """gpt-oss: the channel says what is reasoning, and it may come back."""

    _parser: HarmonyParser

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        """See `StreamParser`. vLLM's parser decodes the token itself, so a text that was cut is cut here."""
        events = super().finish(text, token_ids, cut=cut)
        uncut = Content(self._parser.model_tokenizer.decode(list(token_ids)))
        shown = [Content(text)] if text else []
        return [part for event in events for part in (shown if event == uncut else [event])]

    def _track(self, text: str, token_ids: Sequence[int], events: list[Event]) -> None:
        # Between messages there is no channel; what is written there is markup.
        channel = self._parser._harmony_parser.current_channel  # noqa: SLF001 - vLLM does not offer it
        self.in_reasoning = channel in (None, "analysis")
        self.reasoning_tokens = self._parser._num_reasoning_tokens  # noqa: SLF001


def _chat_request(request: ParserRequest) -> ChatCompletionRequest:
    """Return the request in vLLM's own type, as far as its parsers read it."""
    tool_choice: Any = request.tool_choice
    if isinstance(tool_choice, dict):
        tool_choice = ChatCompletionNamedToolChoiceParam.model_validate(tool_choice)
    history = [{"role": "assistant", "tool_calls": [{}] * request.history_tool_calls}]
    # A copy, because pydantic takes 0.3 ms to construct one of these without validation.
    chat_request: ChatCompletionRequest = _empty_request().model_copy(
        update={
            "messages": history if request.history_tool_calls else [],
            "tools": [ChatCompletionToolsParam.model_validate(tool) for tool in request.tools]
            or None,
            "tool_choice": tool_choice,
            "parallel_tool_calls": request.parallel_tool_calls,
            "include_reasoning": request.include_reasoning,
            "chat_template_kwargs": request.chat_template_kwargs,
        }
    )
    return chat_request


@functools.cache
def _empty_request() -> ChatCompletionRequest:
    return ChatCompletionRequest.model_construct(messages=[])
