"""SGLang's reasoning parsers, and when its server has one begin inside reasoning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest
from sglang.srt.parser.reasoning_parser import IQuestQ1ReasoningDetector, ReasoningParser
from sglang.srt.parser.template_detection import ReasoningToggleConfig, detect_reasoning_pattern

from ..base import ParserRequest
from ..prompt_tail import answer_start

# What a parser's `reasoning_default` stands for where the chat template says nothing.
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
Kwargs = Mapping[str, Any]


def _hunyuan(kwargs: Kwargs, toggle: ReasoningToggleConfig | None) -> bool:
    effort = kwargs.get("reasoning_effort")
    by_default = toggle is not None and toggle.special_case == HUNYUAN_EFFORT
    return by_default if effort is None else effort not in NO_EFFORT


# The parsers that SGLang's server asks other questions of the request.
OWN_RULES: dict[str, Callable[[Kwargs, ReasoningToggleConfig | None], bool]] = {
    "hunyuan": _hunyuan,
    "iquest_q1": lambda kwargs, _: IQuestQ1ReasoningDetector.thinking_enabled(kwargs),
    "minimax-m3": lambda kwargs, _: kwargs.get("thinking_mode") == "enabled",
}
# These know the state from the text, and leave `_in_reasoning` where it began.
BY_TEXT = ("cohere_command4", "gpt-oss", "inkling", "minimax-append-think", "muse")


def thinks(kwargs: Kwargs, toggle: ReasoningToggleConfig | None) -> bool:
    """Return whether the chat template had the model reason.

    Source: `OpenAIServingChat._get_reasoning_from_request` in sglang/srt/entrypoints/openai/serving_chat.py.
    """
    if toggle is None:
        return False
    if toggle.special_case == "mistral":
        return kwargs.get("reasoning_effort") not in (None, "none")
    if toggle.special_case or toggle.toggle_param is None or toggle.default_enabled is None:
        return bool(toggle.always_on)
    asked = kwargs.get(toggle.toggle_param)
    return asked is not False if toggle.default_enabled else asked is True


class ReasoningParsers:
    """Makes SGLang's reasoning parser of one name.

    tokenizer: of the model, with its chat template. vocabulary: what SGLang's parsers are to see of it.
    special: the text of its special tokens.
    """

    def __init__(
        self, name: str, tokenizer: Any, vocabulary: Any, special: Mapping[int, str]
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
        self._special = {
            token_id: text in self._start or text in self._end for token_id, text in special.items()
        }
        self.has_special_markers = any(self._special.values())

    def __call__(
        self, request: ParserRequest, prompt_token_ids: Sequence[int], *, feeds_tool_parser: bool
    ) -> ReasoningParser:
        """Return a new parser. feeds_tool_parser: what is no reasoning goes to SGLang's tool parser."""
        return ReasoningParser(
            self._name,
            force_reasoning=self.is_forced(request.chat_template_kwargs),
            request=self._request(request, prompt_token_ids),
            tokenizer=self._vocabulary,
            tool_call_parser_active=feeds_tool_parser,
        )

    def is_forced(self, kwargs: Kwargs) -> bool:
        """Return whether SGLang's server would have the output begin inside reasoning."""
        own = OWN_RULES.get(self._name)
        return self._always or (
            own(kwargs, self._toggle) if own else thinks(kwargs, self._toggle or self._mode)
        )

    def _request(
        self, request: ParserRequest, prompt_token_ids: Sequence[int]
    ) -> ChatCompletionRequest:
        """Return the request in SGLang's own type, as far as its reasoning parsers read it.

        The prompt's end is, for SGLang, a message to be continued: its markers
        overrule what the flags let one expect.
        """
        tail = answer_start(prompt_token_ids, lambda token: not self._special.get(token, True))
        said = self._tokenizer.decode(tail)
        return ChatCompletionRequest.model_construct(
            messages=[
                SimpleNamespace(role="assistant", content=said[max(0, said.rfind(self._start)) :])
            ],
            continue_final_message=True,
            chat_template_kwargs=dict(request.chat_template_kwargs),
            reasoning_effort=request.chat_template_kwargs.get("reasoning_effort"),
        )
