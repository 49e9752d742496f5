"""SGLang's reasoning parsers, and whether a request's output begins inside reasoning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Protocol

from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest
from sglang.srt.parser.reasoning_parser import IQuestQ1ReasoningDetector, ReasoningParser
from sglang.srt.parser.template_detection import ReasoningToggleConfig, detect_reasoning_pattern

from ...base.limits import MAX_DECODED
from ...parsers.base import ParserRequest
from ...parsers.native.startup_checks import EngineTokenizer
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
