"""Dynamo's SGLang chat processor as a core of `core_systems`; apart, since importing SGLang takes seconds."""

from __future__ import annotations

from typing import Any

from dynamo.frontend import sglang_prepost, sglang_processor

from .answers import TINY_MODEL, Answer, Texts
from .core_systems import REASONING_PARSER, texts_of


class SglangCore:
    """SGLang's tokenizer, FunctionCallParser and ReasoningParser in Dynamo's SglangStreamingPostProcessor."""

    def __init__(self, tool_call_parser: str = "hermes") -> None:
        self._tool_call_parser = tool_call_parser
        self._tokenizer = sglang_processor._load_tokenizer(str(TINY_MODEL), trust_remote_code=False)  # noqa: SLF001
        self._eos = sglang_processor._model_eos_token_ids(self._tokenizer, str(TINY_MODEL))  # noqa: SLF001
        self._forces_reasoning = sglang_prepost.detect_force_reasoning_from_template(
            self._tokenizer.chat_template
        )

    def __call__(self, answer: Answer) -> SglangStream:
        """Begin an answer."""
        # Dynamo's own: it alone knows how a request's parsers are set up.
        made = sglang_prepost.preprocess_chat_request(
            {"model": "tiny", **answer.request},
            tokenizer=self._tokenizer,
            tool_call_parser_name=self._tool_call_parser,
            reasoning_parser_name=REASONING_PARSER,
            template_force_reasoning=self._forces_reasoning,
        )
        return SglangStream(
            sglang_prepost.SglangStreamingPostProcessor(
                tokenizer=self._tokenizer,
                tool_call_parser=made.tool_call_parser,
                reasoning_parser=made.reasoning_parser,
                sglang_tools=sglang_prepost.convert_tools(answer.request.get("tools")),
                tool_call_parser_name=self._tool_call_parser,
                eos_token_ids=self._eos,
                prompt_token_ids=made.prompt_token_ids,
            )
        )


class SglangStream:
    """See `core_systems.Stream`."""

    def __init__(self, post: Any) -> None:
        self._post = post
        self._choices: list[dict[str, Any]] = []

    def feed(self, token_id: int, *, last: bool) -> None:
        """See `core_systems.Stream`."""
        choice = self._post.process_output(
            {"token_ids": [token_id], "finish_reason": "stop" if last else None}
        )
        if choice:
            self._choices.append(choice)

    def texts(self) -> Texts:
        """See `core_systems.Stream`."""
        return texts_of(self._choices)
