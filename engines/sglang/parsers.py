"""SGLang's own parsers, by the names of its `--tool-call-parser` and `--reasoning-parser`.

They are fed as in SGLang's own server: the reasoning parser passes other text on to the tool
parser, and after the last token both return what they have held back. Source:
`OpenAIServingChat._process_reasoning_stream`, `_process_tool_call_stream` and
`_check_for_unstreamed_tool_args` in sglang/srt/entrypoints/openai/serving_chat.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Protocol, cast

from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest, Function, Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import IQuestQ1ReasoningDetector, ReasoningParser
from sglang.srt.parser.template_detection import ReasoningToggleConfig, detect_reasoning_pattern
from typing_extensions import override

from ...base.errors import REASONING_FLAG, TOOL_CALL_FLAG
from ...base.limits import MAX_DECODED
from ...base.log import bound_loggers
from ...base.server_names import find_own_name
from ...parsers.base import ParserFactory, ParserNames, ParserRequest, StreamParser
from ...parsers.events import Event
from ...parsers.native import startup_checks
from ...parsers.native.call_items import CallItem, CallItems
from ...parsers.native.reasoning_count import CountingParser, Phase
from ...parsers.native.startup_checks import EngineTokenizer
from ...parsers.passthrough import PassthroughParser
from ...parsers.prompt_tail import find_last

# Meanings of a parser's `reasoning_default`, which applies if the chat template has no switch.
MODES = {
    "always": ReasoningToggleConfig(special_case="always"),
    "mistral": ReasoningToggleConfig(special_case="mistral"),
    "thinking": ReasoningToggleConfig("thinking", default_enabled=True),
    "enable_thinking": ReasoningToggleConfig("enable_thinking", default_enabled=True),
    "explicit_thinking": ReasoningToggleConfig("thinking", default_enabled=False),
    "explicit_enable_thinking": ReasoningToggleConfig("enable_thinking", default_enabled=False),
}
HUNYUAN_EFFORT = "hunyuan_effort"
NO_EFFORT = ("none", "no_think")
Kwargs = Mapping[str, object]


class VocabularyTokenizer(EngineTokenizer, Protocol):
    """An engine's tokenizer that exposes its vocabulary, as those of transformers do."""

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of the special tokens."""

    def decode(self, token_ids: Sequence[int], /, *, skip_special_tokens: bool = False) -> str:
        """Return the text of `token_ids`."""

    def get_vocab(self) -> dict[str, int]:
        """Return all tokens' ids, by their text."""


def _hunyuan_thinks(kwargs: Kwargs, toggle: ReasoningToggleConfig | None) -> bool:
    effort = kwargs.get("reasoning_effort")
    by_default = toggle is not None and toggle.special_case == HUNYUAN_EFFORT
    return by_default if effort is None else effort not in NO_EFFORT


# Parsers with special rules in SGLang's server.
OWN_RULES: dict[str, Callable[[Kwargs, ReasoningToggleConfig | None], bool]] = {
    "hunyuan": _hunyuan_thinks,
    "iquest_q1": lambda kwargs, _: IQuestQ1ReasoningDetector.thinking_enabled(kwargs),
    "minimax-m3": lambda kwargs, _: kwargs.get("thinking_mode") == "enabled",
}
# Parsers that find the state in the text and never change `_in_reasoning`.
BY_TEXT = ("cohere_command4", "gpt-oss", "inkling", "minimax-append-think", "muse")


def template_thinks(kwargs: Kwargs, toggle: ReasoningToggleConfig | None) -> bool:
    """Whether the chat template makes the model reason.

    kwargs: the request's chat_template_kwargs. toggle: the template's switch for reasoning.
    Source: `OpenAIServingChat._get_reasoning_from_request` in
    sglang/srt/entrypoints/openai/serving_chat.py.
    """
    if toggle is None:
        return False
    if toggle.special_case == "mistral":
        return kwargs.get("reasoning_effort") not in (None, "none")
    if toggle.special_case or toggle.toggle_param is None or toggle.default_enabled is None:
        return bool(toggle.always_on)
    asked = kwargs.get(toggle.toggle_param)
    return asked is not False if toggle.default_enabled else asked is True


class ReasoningParserFactory:
    """Builds SGLang's reasoning parsers of one name.

    tokenizer: the model's, with its chat template.
    vocabulary: the part of it for SGLang's parsers. special: text of special tokens, by id.
    """

    def __init__(
        self, name: str, tokenizer: EngineTokenizer, vocabulary: object, special: Mapping[int, str]
    ) -> None:
        self._name = name
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._always, self._toggle = detect_reasoning_pattern(
            getattr(tokenizer, "chat_template", None)
        )
        detector = ReasoningParser(name, tokenizer=vocabulary).detector
        self._mode = MODES[detector.reasoning_default]
        self._start, self._end = detector.think_start_token, detector.think_end_token
        parts = {
            token_id
            for token_id, text in special.items()
            if text in self._start or text in self._end
        }
        self._ends_turn = special.keys() - parts
        self.has_special_markers = bool(parts)

    def __call__(
        self, request: ParserRequest, prompt_token_ids: Sequence[int], *, feeds_tool_parser: bool
    ) -> ReasoningParser:
        """Return a new parser.

        feeds_tool_parser: SGLang's tool parser gets the text that is not reasoning.
        """
        return ReasoningParser(
            self._name,
            force_reasoning=self.is_forced(request.chat_template_kwargs),
            request=self._build_request(request, prompt_token_ids),
            tokenizer=self._vocabulary,
            tool_call_parser_active=feeds_tool_parser,
        )

    def is_forced(self, kwargs: Kwargs) -> bool:
        """Whether SGLang's server assumes that the output begins inside reasoning."""
        own = OWN_RULES.get(self._name)
        return self._always or (
            own(kwargs, self._toggle)
            if own
            else template_thinks(kwargs, self._toggle or self._mode)
        )

    def _build_request(
        self, request: ParserRequest, prompt_token_ids: Sequence[int]
    ) -> ChatCompletionRequest:
        """Return the request as SGLang's type, with the fields that its reasoning parsers read.

        SGLang sees the end of the prompt as a message to continue, whose markers take precedence
        over the template's switches.
        """
        start = find_last(prompt_token_ids, self._ends_turn) + 1
        tail = prompt_token_ids[max(start, len(prompt_token_ids) - MAX_DECODED) :]
        written = self._tokenizer.decode(list(tail))
        return ChatCompletionRequest.model_construct(
            messages=[
                SimpleNamespace(
                    role="assistant", content=written[max(0, written.rfind(self._start)) :]
                )
            ],
            continue_final_message=True,
            chat_template_kwargs=dict(request.chat_template_kwargs),
            reasoning_effort=request.chat_template_kwargs.get("reasoning_effort"),
        )


LOGGERS = "sglang.srt.function_call"
_DEEPSEEK_CALLS = "<｜tool▁calls▁begin｜>"  # noqa: RUF001 - the bars are the marker's own
# Parsers that lose a marker which arrives in pieces -> a marker that is a single token in the
# tokenizers of their family.
NEEDS_TOKEN = {
    (TOOL_CALL_FLAG, "deepseekv3"): _DEEPSEEK_CALLS,
    (TOOL_CALL_FLAG, "deepseekv31"): _DEEPSEEK_CALLS,
    (TOOL_CALL_FLAG, "gigachat3"): "<|message_sep|>",
    (TOOL_CALL_FLAG, "gpt-oss"): "<|channel|>",
    (TOOL_CALL_FLAG, "kimi_k2"): "<|tool_call_end|>",
    (TOOL_CALL_FLAG, "minimax-m2"): "<minimax:tool_call>",
    (REASONING_FLAG, "gpt-oss"): "<|channel|>",
}


def known_names(flag: str) -> list[str]:
    """Return SGLang's own names for one of the two flags."""
    is_tool_call = flag == TOOL_CALL_FLAG
    table = FunctionCallParser.ToolCallParserEnum if is_tool_call else ReasoningParser.DetectorMap
    return [name for name in table if find_own_name(name) is None]


check_names = functools.partial(startup_checks.check_registered, known_names)


class SglangParsers(ParserFactory):
    """Builds a model's parsers from SGLang's.

    tokenizer: SGLang's (transformers') tokenizer of the model, with its chat template.
    Raises `UnknownParserError` for a name that SGLang does not know, and `UnusableParserError` for
    a parser that fails with this tokenizer or cannot stream.
    """

    def __init__(self, tokenizer: object, names: ParserNames) -> None:
        check_names(names)
        self.name = names.label
        bound_loggers(LOGGERS)
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
            with startup_checks.raise_unusable("SGLang", REASONING_FLAG, names.reasoning):
                self._check_markers(REASONING_FLAG, names.reasoning)
                self._reasoning = ReasoningParserFactory(
                    names.reasoning, loaded, self._vocabulary, self._special
                )
        if names.tool_call:
            with startup_checks.raise_unusable("SGLang", TOOL_CALL_FLAG, names.tool_call):
                self._check_markers(TOOL_CALL_FLAG, names.tool_call)
        startup_checks.try_parsers("SGLang", self, names, loaded)

    @override
    def shows_special_tokens(self, request: ParserRequest) -> bool:
        # SGLang's tool parsers only read text, so its server shows them all tokens.
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
            CallItems(self._names.tool_call, request.history_tool_calls),
            self._special,
            self._control_ids,
            follows_text=self._names.reasoning in BY_TEXT,
        )

    def _check_markers(self, flag: str, name: str) -> None:
        marker = NEEDS_TOKEN.get((flag, name))
        if marker and len(self._tokenizer.encode(marker, add_special_tokens=False)) > 1:
            reason = (
                f"SGLang's parser of that name finds {marker} only as one token, "
                "and this model's tokenizer has none."
            )
            raise startup_checks.build_wrong_family_error(flag, name, reason)

    def _tool_parser(self, request: ParserRequest) -> FunctionCallParser | None:
        """Return a new tool parser of SGLang's; None if no name was chosen."""
        if self._names.tool_call is None:
            return None
        return FunctionCallParser(
            [_build_tool(**tool["function"]) for tool in request.tools],
            self._names.tool_call,
            tokenizer=self._vocabulary,
        )


class SglangStreamParser(CountingParser[FunctionCallParser, ReasoningParser]):
    """Parses one choice with SGLang's parsers of the model.

    special: the text of the special tokens, by id.
    follows_text: the reasoning parser has no flag for being in reasoning; use its events.
    """

    def __init__(
        self,
        tools: FunctionCallParser | None,
        reasoning: ReasoningParser | None,
        items: CallItems,
        special: Mapping[int, str],
        control_ids: set[int],
        *,
        follows_text: bool,
    ) -> None:
        self._special = special
        self._follows_text = follows_text
        super().__init__(tools, reasoning, items, control_ids)

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events = self.feed(text or self._call_end(token_ids), token_ids)
        if self.reasoning is not None:
            events += self.read(*self.reasoning.parse_stream_end())
        if (tools := self.tools) is not None:
            events += self.items.read_rest(lambda: self.find_calls(tools, ""))
            events += self.items.read(*tools.parse_stream_end())
            parsed = getattr(tools.detector, "prev_tool_call_arr", None) or ()
            events += () if cut else self.items.calls.send_rest(parsed)
        self.track((), events)
        return events

    def _call_end(self, token_ids: Sequence[int]) -> str:
        """Return the text of the token that ended generation if it also ends a call.

        gpt-oss has such a token. It is not part of the answer's text, but the tool parser waits for
        it, and SGLang's detokenizer shows it.
        """
        text = "".join(self._special.get(token_id, "") for token_id in token_ids)
        return text if self.tools is not None and text == self.tools.detector.eot_token else ""

    @override
    def split(self, reasoning: ReasoningParser, text: str) -> tuple[str, str]:
        parts: tuple[str, str] = reasoning.parse_stream_chunk(text)
        return parts

    @override
    def find_calls(self, tools: FunctionCallParser, text: str) -> tuple[str, Sequence[CallItem]]:
        found: tuple[str, Sequence[CallItem]] = tools.parse_stream_chunk(text)
        return found

    @override
    def read_phase(self, reasoning: ReasoningParser) -> Phase:
        detector = reasoning.detector
        in_reasoning = detector._in_reasoning  # noqa: SLF001 - SGLang has no public access
        return (
            None if self._follows_text else in_reasoning,
            (in_reasoning, detector.stripped_think_start),
        )


class MarkerVocabulary:
    """The part of a tokenizer that SGLang's parsers use: words that may be markers.

    It is small, because Hunyuan's parsers search it for every request.
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
