"""Dynamo's SGLang chat processor, behind the interface of `postprocessors`.

In a module of its own, because importing SGLang takes seconds.
"""

from __future__ import annotations

from typing import Any

from backedge.base.json_types import JsonObject
from dynamo.frontend import sglang_prepost, sglang_processor
from typing_extensions import override

from .answers import TINY_MODEL, Answer, Texts
from .postprocessors import REASONING_PARSER, Stream, join_texts


class SglangPostprocessor:
    """Dynamo's SglangStreamingPostProcessor.

    It runs SGLang's tokenizer, FunctionCallParser and ReasoningParser.
    """

    def __init__(self, tool_call_parser: str = "hermes") -> None:
        self._tool_call_parser = tool_call_parser
        model, processor = str(TINY_MODEL), sglang_processor
        self._tokenizer = processor._load_tokenizer(  # noqa: SLF001 - Dynamo has no public way
            model, trust_remote_code=False
        )
        self._eos = processor._model_eos_token_ids(  # noqa: SLF001 - Dynamo has no public way
            self._tokenizer, model
        )
        self._forces_reasoning = sglang_prepost.detect_force_reasoning_from_template(
            self._tokenizer.chat_template
        )

    def __call__(self, answer: Answer) -> SglangStream:
        """Start post-processing an answer."""
        # Dynamo's own function: only Dynamo knows how a request's parsers are set up.
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


class SglangStream(Stream):
    """One answer in Dynamo's SGLang chat processor."""

    def __init__(self, post: Any) -> None:
        self._post = post
        self._choices: list[JsonObject] = []

    @override
    def feed(self, token_id: int, *, last: bool) -> None:
        choice = self._post.process_output(
            {"token_ids": [token_id], "finish_reason": "stop" if last else None}
        )
        if choice:
            self._choices.append(choice)

    @override
    def texts(self) -> Texts:
        return join_texts(self._choices)
