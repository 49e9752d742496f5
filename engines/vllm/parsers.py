"""vLLM's own parsers, by the names of its `--tool-call-parser` and `--reasoning-parser`.

They are called through `vllm.parser.Parser.parse_delta`, as in vLLM's own server. So plugins and
models with special parsers (Harmony, Kimi K3, Cohere) behave as they do there.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from typing_extensions import override
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

from ...base.errors import REASONING_FLAG, TOOL_CALL_FLAG, SetupError
from ...base.log import bound_loggers
from ...base.server_names import find_own_name
from ...parsers.base import ParserFactory, ParserNames, ParserRequest, StreamParser
from ...parsers.events import Content, Event, Reasoning
from ...parsers.native.sent_calls import SentCalls
from ...parsers.native.startup_checks import (
    PROBE_TEXT,
    PROBE_TOOL,
    EngineTokenizer,
    check_registered,
    raise_unusable,
    try_parser,
)
from ...parsers.passthrough import PassthroughParser

PLUGIN_FLAG = "--tool-parser-plugin"
LOGGERS = ("vllm.parser", "vllm.reasoning", "vllm.tool_parsers")
CANNOT_STREAM = {
    "phi4_mini_json": "vLLM's parser of that name returns neither calls nor text when it streams.",
}


def load_tool_parser_plugin(path: str) -> None:
    """Import a user's module or file that registers tool parsers.

    Raises `SetupError` with the cause. vLLM's own loader only logs it and continues without the
    parser.
    """
    try:
        try:
            importlib.import_module(path)
        except ModuleNotFoundError:
            import_from_path(Path(path).stem, path)
    except Exception as error:
        # A plugin is the user's code, which may raise anything.
        reason = f"{type(error).__name__}: {error}"
        raise SetupError(f"{PLUGIN_FLAG} {path!r} cannot be imported ({reason}).") from error
    bound_loggers(path, Path(path).stem)


def known_names(flag: str) -> list[str]:
    """Return vLLM's own names for one of the two flags; imports no parser."""
    managers = {TOOL_CALL_FLAG: ToolParserManager, REASONING_FLAG: ReasoningParserManager}
    names = managers[flag].list_registered()
    return [name for name in names if find_own_name(name) is None]


check_names = functools.partial(check_registered, known_names)


class VllmParsers(ParserFactory):
    """Builds a model's parsers from vLLM's.

    tokenizer: vLLM's tokenizer of the model.
    model_config: vLLM's ModelConfig; some parsers read the architecture from it.
    Raises `UnknownParserError` for a name that vLLM does not register, and `UnusableParserError`
    for a parser that fails with this tokenizer or cannot stream (ai-dynamo/dynamo 14936).
    """

    def __init__(self, tokenizer: object, names: ParserNames, model_config: object = None) -> None:
        check_names(names)
        self.name = names.label
        self._tokenizer = cast("EngineTokenizer", tokenizer)
        self._model_config = model_config
        self._shows_special: dict[bool, bool] = {}  # by whether the tool parser reads the output
        self._reasoning_class: type[Parser] | None = None
        self._full_class: type[Parser] | None = None
        if names.reasoning:
            with raise_unusable("vLLM", REASONING_FLAG, names.reasoning, CANNOT_STREAM):
                only_reasoning = ParserNames(reasoning=names.reasoning)
                self._reasoning_class = self._full_class = self._parser_class(only_reasoning)
                self._probe(ParserRequest())
        if names.tool_call:
            with raise_unusable("vLLM", TOOL_CALL_FLAG, names.tool_call, CANNOT_STREAM):
                self._full_class = self._parser_class(names)
                self._probe(ParserRequest(tools=[PROBE_TOOL], tool_choice="auto"))
        bound_loggers(*LOGGERS)  # the module of a parser is imported when it is built

    @override
    def shows_special_tokens(self, request: ParserRequest) -> bool:
        # vLLM's parsers show this by adjusting the request.
        native_calls = request.parses_own_syntax
        if native_calls not in self._shows_special:
            chat_request = _build_chat_request(request)
            parser = self._parser(request, chat_request)
            for part in (parser.reasoning_parser, parser.tool_parser) if parser is not None else ():
                if part is not None:
                    chat_request = part.adjust_request(chat_request)
            self._shows_special[native_calls] = chat_request.skip_special_tokens is False
        return self._shows_special[native_calls]

    @override
    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        chat_request = _build_chat_request(request)
        parser = self._parser(request, chat_request)
        if parser is None:
            return PassthroughParser()
        is_harmony = isinstance(parser, HarmonyParser)
        stream_class = HarmonyStreamParser if is_harmony else VllmStreamParser
        return stream_class(parser, chat_request, prompt_token_ids)

    def _parser(self, request: ParserRequest, chat_request: ChatCompletionRequest) -> Parser | None:
        """Build a vLLM parser; None if the request's output needs no parsing."""
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
        """Use a new parser as every request will; raises what the parser raises."""
        self.shows_special_tokens(request)
        parser = self(request, [])
        try_parser(parser, self._tokenizer)
        if isinstance(parser, VllmStreamParser):
            last = self._tokenizer.encode(PROBE_TEXT, add_special_tokens=False)[-1]
            parser.probe_reasoning(self._tokenizer.decode([last]), last)


class VllmStreamParser(StreamParser):
    """Parses one choice with vLLM's parser of the model.

    request: the request as the parser reads it.
    """

    token_aligned = True
    in_reasoning = False
    reasoning_tokens = 0

    def __init__(
        self, parser: Parser, request: ChatCompletionRequest, prompt_token_ids: Sequence[int]
    ) -> None:
        self._parser = parser
        self._request = request
        self._prompt_token_ids = list(prompt_token_ids)
        self._calls = SentCalls()
        self._delegates = type(parser).parse_delta is DelegatingParser.parse_delta
        self._only_reasons = self._delegates and parser.tool_parser is None
        reasoning = parser.reasoning_parser
        self._markers = (
            (reasoning.reasoning_start_str, reasoning.reasoning_end_str) if reasoning else ()
        )
        self.in_reasoning = reasoning is not None and not parser.is_reasoning_end(
            self._prompt_token_ids
        )

    @override
    def reads_together(self, token_ids: Sequence[int]) -> bool:
        return len(token_ids) == 1

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        state = self._parser._stream_state  # noqa: SLF001 - as below
        if self._only_reasons and state.reasoning_ended:
            # vLLM's parser would return the same, but build a message for it first.
            return [Content(text)] if text else []
        return self._read(text, token_ids, finished=False)

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events = self._read(text, token_ids, finished=True)
        parsed = getattr(self._parser.tool_parser, "prev_tool_call_arr", None) or []
        return events if cut else events + list(self._calls.send_rest(parsed))

    def probe_reasoning(self, text: str, token_id: int) -> None:
        """Raise NotImplementedError if the reasoning parser cannot split a stream.

        A parser that only finds the end of reasoning reports for every prompt that reasoning is
        over. So feeding it shows no error; its reasoning would silently become content.
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
        if not self.in_reasoning:
            return
        ended = self._parser._stream_state.reasoning_ended  # noqa: SLF001 - no public access
        if ended or any(not isinstance(event, Reasoning) for event in events):
            self.in_reasoning = False
        elif text not in self._markers:
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
                yield self._calls.add_arguments(call.index, function.arguments)


class HarmonyStreamParser(VllmStreamParser):
    """Parses one choice of gpt-oss, where channels mark reasoning, which may recur."""

    _parser: HarmonyParser

    def __init__(
        self, parser: Parser, request: ChatCompletionRequest, prompt_token_ids: Sequence[int]
    ) -> None:
        super().__init__(parser, request, prompt_token_ids)
        self._token_ids: list[int] = []

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        # vLLM's parser decodes the last token itself. If a stop string has cut its text, the
        # event must have the cut text.
        events = super().finish(text, token_ids, cut=cut)
        uncut = Content(self._parser.model_tokenizer.decode(list(token_ids)))
        shown = [Content(text)] if text else []
        return [part for event in events for part in (shown if event == uncut else [event])]

    @override
    def _track(self, text: str, token_ids: Sequence[int], events: list[Event]) -> None:
        parser = self._parser
        # Between messages there is no channel, and text is markup.
        channel = parser._harmony_parser.current_channel  # noqa: SLF001 - no public access
        self.in_reasoning = channel in (None, "analysis")
        self._token_ids += token_ids
        self.reasoning_tokens = parser.count_reasoning_tokens(self._token_ids)


def _build_chat_request(request: ParserRequest) -> ChatCompletionRequest:
    """Return the request as vLLM's type, with the fields that its parsers read."""
    tool_choice = request.tool_choice
    if isinstance(tool_choice, dict):
        tool_choice = ChatCompletionNamedToolChoiceParam.model_validate(tool_choice)
    history = [{"role": "assistant", "tool_calls": [{}] * request.history_tool_calls}]
    # A copy, because even without validation pydantic takes 0.3 ms to construct a request.
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
