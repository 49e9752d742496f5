"""The forward edge of Dynamo's SGLang chat processor: its template, tokenization and guided decoding."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from dynamo.common.multimodal.cache_uuid import reject_unsupported_multimodal_uuids
from dynamo.frontend import sglang_prepost, sglang_processor
from dynamo.frontend.structural_tag_policy import runtime_structural_tag_options
from dynamo.frontend.thinking import runtime_default_thinking_mode
from dynamo.frontend.utils import PreprocessError, extract_mm_urls
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

from ...parsers.base import ParserFactory, ParserNames
from ...parsers.errors import RequestError
from ...parsers.native.sglang import SglangParsers, check_names
from ...parsers.parser_lookup import linear_parsers
from ...tokenization.chat_template import render_in_time, spell_tools
from ...tokenization.detokenizer import detokenizers, read_vocabulary
from ...tokenization.model_files import ModelFolder
from ..chat_model import ChatModel, Request
from ..parser_names import FrontendParsers, Native
from .base import ChatModelBuilder
from .prompt_preprocessor import Prompt, PromptPreprocessor

logger = logging.getLogger(__name__)

NATIVE = Native(
    check_names,
    FunctionCallParser.ToolCallParserEnum.keys,
    ReasoningParser.DetectorMap.keys,
)


class SglangModelBuilder(ChatModelBuilder):
    """See `ChatModelBuilder`."""

    async def model(self, instance_id: Any, routed_engine: Any) -> ChatModel:
        """See `ChatModelBuilder`."""
        return await asyncio.to_thread(self._model, routed_engine)

    def _model(self, routed_engine: Any) -> ChatModel:
        parsers = self.parsers(NATIVE)
        tokenizer = self._tokenizer()
        folder = ModelFolder(self.path, token_id=tokenizer.convert_tokens_to_ids)
        prompts = SglangPrompts(
            tokenizer,
            parsers.names,
            self.runtime_config,
            self.engine("sglang"),
            hides_unused_tools=self.config.exclude_tools_when_tool_choice_none,
        )
        edge = PromptPreprocessor(
            prompts, folder, self.prompt_queue, self.runtime_config.get("context_length")
        )
        parts = detokenizers(tokenizer), build_parsers(parsers, tokenizer)
        logger.info("model %s: SGLang's forward edge, parsers %s", self.card.name(), parsers)
        return ChatModel(self.card, edge, routed_engine, lambda: parts)

    def _tokenizer(self) -> Any:
        tokenizer = sglang_processor._load_tokenizer(self.path, self.config.trust_remote_code)  # noqa: SLF001
        template = sglang_processor._load_chat_template(self.flags.chat_template)  # noqa: SLF001
        if template is not None:
            tokenizer.chat_template = template
        return tokenizer


def build_parsers(parsers: FrontendParsers, tokenizer: Any) -> ParserFactory:
    """Return the parsers with which this frontend serves plain workers."""
    if parsers.native:
        return SglangParsers(tokenizer, parsers.names)
    return linear_parsers(parsers.names, read_vocabulary(tokenizer))


class SglangPrompts:
    """Renders, tokenizes and constrains as Dynamo's SGLang chat processor does.

    runtime_config: the model card's. engine: of its workers. hides_unused_tools: the template does not get the
    tools of a request that forbids calls.
    """

    def __init__(
        self,
        tokenizer: Any,
        names: ParserNames,
        runtime_config: dict[str, Any],
        engine: str,
        *,
        hides_unused_tools: bool,
    ) -> None:
        self._tokenizer = tokenizer
        self._engine = engine
        installed = NATIVE.installed(names)
        self._reasoning = installed.reasoning
        mode, scope, schema = runtime_structural_tag_options(runtime_config)
        self._options = {
            "tool_call_parser_name": installed.tool_call,
            "reasoning_parser_name": self._reasoning,
            "exclude_tools_when_tool_choice_none": hides_unused_tools,
            "template_force_reasoning": sglang_prepost.detect_force_reasoning_from_template(
                getattr(tokenizer, "chat_template", None)
            ),
            "default_thinking_mode": runtime_default_thinking_mode(runtime_config),
            # SGLang's structural tags are not those of other engines.
            "structural_tag_mode": mode if self._engine == "sglang" else "off",
            "structural_tag_scope": scope,
            "structural_tag_schema": schema,
        }

    def __call__(self, request: Request) -> Prompt:
        """See `PromptPreprocessor`."""
        try:
            made = render_in_time(
                lambda: sglang_prepost.preprocess_chat_request(
                    self._with_tools(request), tokenizer=self._tokenizer, **self._options
                )
            )
            media, uuids = extract_mm_urls(request["messages"])
            reject_unsupported_multimodal_uuids(uuids)
        except (PreprocessError, TimeoutError) as error:
            raise RequestError(
                "messages", request["messages"], f"what the model's template takes ({error})"
            ) from error
        fields: dict[str, Any] = {
            "require_reasoning": sglang_prepost._guided_output_requires_reasoning(  # noqa: SLF001
                request, made.force_reasoning, self._reasoning, made.guided_decoding
            ),
        }
        if media:
            fields["multi_modal_data"] = media
        template_kwargs = {**(made.request.get("chat_template_kwargs") or {})}
        template_kwargs.pop("tools", None)
        if template_kwargs:
            fields["reasoning_parser_kwargs"] = {"chat_template_kwargs": template_kwargs}
        return Prompt(made.prompt_token_ids, made.guided_decoding, fields)

    def _with_tools(self, request: Request) -> Request:
        """Return the request with its tools as the model's engine spells them, if that is not SGLang.

        Arguments of the template go over what Dynamo makes of the tools.
        """
        hidden = (
            request.get("tool_choice") == "none"
            and self._options["exclude_tools_when_tool_choice_none"]
        )
        if self._engine == "sglang" or not request.get("tools") or hidden:
            return request
        given = request.get("chat_template_kwargs") or request.get("chat_template_args") or {}
        return {
            **request,
            "chat_template_kwargs": {**given, "tools": spell_tools(request["tools"], self._engine)},
        }
