"""The frontend for SGLang: Dynamo's SGLang chat processor renders, tokenizes and constrains."""

from __future__ import annotations

import asyncio
import functools
from typing import ClassVar

from dynamo.common.multimodal.cache_uuid import reject_unsupported_multimodal_uuids
from dynamo.frontend import sglang_prepost
from dynamo.frontend.sglang_prepost import _guided_output_requires_reasoning
from dynamo.frontend.sglang_processor import _load_chat_template, _load_tokenizer
from dynamo.frontend.structural_tag_policy import runtime_structural_tag_options
from dynamo.frontend.thinking import runtime_default_thinking_mode
from dynamo.frontend.utils import PreprocessError, extract_mm_urls
from msgspec import UNSET
from typing_extensions import override

from ...base.errors import RequestError, SetupError
from ...base.json_types import JsonObject
from ...base.limits import KEPT_TEMPLATES
from ...base.log import get_logger
from ...frontend.chat_model import Blocks
from ...frontend.model_builder import ChatModelBuilder
from ...frontend.parser_selection import select_installed
from ...frontend.prompt_preprocessor import PromptPreprocessor
from ...frontend.request.chat_request import ChatRequest
from ...frontend.request.preprocessed_request import EngineFields, Prompt, ReasoningParserKwargs
from ...frontend.request.tool_schema_cache import with_standard_tools
from ...guided.call_policy import CallPolicy
from ...parsers.api import Engine
from ...parsers.base import ParserNames
from ...templates.chat_template import format_tools
from ...templates.transformers_tokenizers import (
    NO_ENCODER,
    BoundedTokenizer,
    PromptTokenizer,
    bound_templates,
    check_has_template,
    check_template,
    make_encoder,
)
from ...tokenization.detokenizer import detokenizers
from ...tokenization.model_files import ModelFolder
from ...tokenization.tokenizer_selection import BACKEND_FLAG, MISTRAL_MODE
from .seams import CONTENT_FORMATS

logger = get_logger(__name__)


class SglangModelBuilder(ChatModelBuilder):
    """Builds models with SGLang's tokenizer and Dynamo's rendering for SGLang."""

    native: ClassVar[Engine | None] = "sglang"

    @override
    async def build(self) -> Blocks:
        return await asyncio.to_thread(self._build_in_thread)

    def _build_in_thread(self) -> Blocks:
        if self.selection.mode == MISTRAL_MODE:
            raise SetupError(
                f"{BACKEND_FLAG} sglang reads no tokenizer of mistral-common; leave the flag out, "
                "or choose vllm."
            )
        parsers = self.usable_parsers()
        tokenizer = self._load_tokenizer()
        folder = ModelFolder(
            self.path,
            token_id=tokenizer.convert_tokens_to_ids,
            context_length=self.context_length,
        )
        encoder = make_encoder(tokenizer, self.prompt_cache)
        self.log_uncached(NO_ENCODER if encoder is None else encoder.why_uncached)
        prompts = SglangPrompts(
            BoundedTokenizer(tokenizer, folder.prompt_limit, encoder),
            parsers.names,
            self.runtime_config,
            self.engine_name("sglang"),
            self.call_policy,
            hides_unused_tools=self.config.exclude_tools_when_tool_choice_none,
        )
        preprocessor = PromptPreprocessor(prompts, folder, self.prompt_queue, self.context_length)
        factories = detokenizers(tokenizer), parsers.build("sglang", tokenizer)
        self.log_model("SGLang renders", parsers.names)
        return Blocks(preprocessor, lambda: factories)

    def _load_tokenizer(self) -> PromptTokenizer:
        bound_templates()
        if CONTENT_FORMATS not in self.features_off:
            remember_content_formats()
        tokenizer: PromptTokenizer = _load_tokenizer(self.path, self.config.trust_remote_code)
        template = _load_chat_template(self.flags.chat_template)
        if template is not None:
            tokenizer.chat_template = template
        check_template(tokenizer)
        check_has_template(tokenizer)
        return tokenizer


def remember_content_formats() -> None:
    """Have Dynamo determine the form of content of each chat template once in this process.

    It would parse the template for each request, which is nine tenths of the cost of a short one.
    """
    detect = sglang_prepost.detect_jinja_template_content_format
    if not hasattr(detect, "cache_info"):
        remembered = functools.lru_cache(KEPT_TEMPLATES)(detect)
        sglang_prepost.detect_jinja_template_content_format = remembered


class SglangPrompts:
    """Renders, tokenizes and constrains as Dynamo's SGLang chat processor does.

    runtime_config: the model card's. engine: of the model's workers.
    call_policy: whether grammars use the model's own syntax for calls.
    hides_unused_tools: render the template without the tools of a request that forbids calls.
    """

    def __init__(
        self,
        tokenizer: PromptTokenizer | BoundedTokenizer,
        names: ParserNames,
        runtime_config: JsonObject,
        engine: str,
        call_policy: CallPolicy,
        *,
        hides_unused_tools: bool,
    ) -> None:
        self._tokenizer = tokenizer
        self._engine = engine
        self._call_policy = call_policy
        self._hides_unused_tools = hides_unused_tools
        installed = select_installed("sglang", names)
        self._reasoning = installed.reasoning
        mode, scope, schema = runtime_structural_tag_options(runtime_config)
        self._options: JsonObject = {
            "tool_call_parser_name": installed.tool_call,
            "reasoning_parser_name": self._reasoning,
            "exclude_tools_when_tool_choice_none": hides_unused_tools,
            "template_force_reasoning": sglang_prepost.detect_force_reasoning_from_template(
                getattr(tokenizer, "chat_template", None)
            ),
            "default_thinking_mode": runtime_default_thinking_mode(runtime_config),
            # SGLang's structural tags differ from those of other engines.
            "structural_tag_mode": (
                mode if engine == "sglang" and not call_policy.replaces_all else "off"
            ),
            "structural_tag_scope": scope,
            "structural_tag_schema": schema,
        }

    def __call__(self, request: ChatRequest) -> Prompt:
        """Build the prompt. Raises `RequestError` for messages that the template rejects."""
        messages = request.raw["messages"]
        try:
            preprocessed = sglang_prepost.preprocess_chat_request(
                self._format_tools(request), tokenizer=self._tokenizer, **self._options
            )
            media, uuids = extract_mm_urls(messages)
            reject_unsupported_multimodal_uuids(uuids)
        except (PreprocessError, TimeoutError) as error:
            raise RequestError.rejected(error) from error
        guided_decoding = self._call_policy.constrain(request, lambda: preprocessed.guided_decoding)
        fields = EngineFields(
            require_reasoning=_guided_output_requires_reasoning(
                request.raw,
                preprocessed.force_reasoning,
                self._reasoning,
                guided_decoding,
            ),
            multi_modal_data=media or UNSET,
        )
        template_kwargs = {**(preprocessed.request.get("chat_template_kwargs") or {})}
        template_kwargs.pop("tools", None)
        if template_kwargs:
            fields.reasoning_parser_kwargs = ReasoningParserKwargs(template_kwargs)
        return Prompt(preprocessed.prompt_token_ids, guided_decoding, fields)

    def _format_tools(self, request: ChatRequest) -> JsonObject:
        """Return the request with its tools as the model's engine writes them.

        Dynamo writes tools as SGLang does; the template's arguments override that.
        SGLang's server standardizes the schemas for both grammars and templates.
        """
        raw = with_standard_tools(request)
        hidden = request.tool_choice == "none" and self._hides_unused_tools
        if self._engine == "sglang" or not request.tools or hidden:
            return raw
        template_kwargs = request.chat_template_kwargs or request.chat_template_args or {}
        tools = format_tools(request.raw["tools"], self._engine)
        return {**raw, "chat_template_kwargs": {**template_kwargs, "tools": tools}}
