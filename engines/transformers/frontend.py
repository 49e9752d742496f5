"""The frontend without an engine: tokenizer.json, the chat template, and linear parsers.

It imports neither vLLM nor torch. Only the engines' frontends support images, other kinds of
tokenizers, and grammars in the model's own tool syntax.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

import msgspec
from dynamo.frontend.thinking import (
    apply_default_thinking_mode_to_template_kwargs,
    runtime_default_thinking_mode,
)
from typing_extensions import override

from ...base.json_types import JsonObject
from ...base.log import get_logger
from ...frontend.chat_model import Blocks
from ...frontend.model_builder import ChatModelBuilder
from ...frontend.prompt_preprocessor import PromptPreprocessor
from ...frontend.request.chat_request import ChatRequest
from ...frontend.request.preprocessed_request import EngineFields, Prompt, ReasoningParserKwargs
from ...guided.call_policy import CallPolicy
from ...parsers.base import ParserFactory
from ...parsers.parser_lookup import linear_parsers
from ...templates.chat_template import ModelPrompts
from ...templates.python_prompts import PythonPrompts
from ...tokenization import load
from ...tokenization.detokenizer import DetokenizerFactory, detokenizers, read_vocabulary

logger = get_logger(__name__)


RenderTokenIds = Callable[..., list[int]]
"""Takes messages, tools or None, `model=` and the template's arguments; returns the prompt's token
ids. Raises `RequestError` for messages that the chat template rejects, and `TokenizerError`."""


class HuggingFaceModelBuilder(ChatModelBuilder):
    """Builds models for "huggingface", and for "python" with a user's tokenizer class."""

    @override
    async def build(self) -> Blocks:
        return await asyncio.to_thread(self._build_in_thread)

    def _build_in_thread(self) -> Blocks:
        names = self.usable_parsers().names
        engine = self.engine_name("vllm")
        files = self._load_files(engine)

        @functools.cache
        def local_factories() -> tuple[DetokenizerFactory, ParserFactory]:
            decoding = files.tokenizer
            return detokenizers(decoding), linear_parsers(names, read_vocabulary(decoding))

        if self.selection.backend != "python":
            # Not while a stream waits for its first chunk. A user's class is constructed with
            # the first request.
            local_factories()
        prompts = HuggingFacePrompts(
            files.prompt_token_ids,
            self.runtime_config,
            self.call_policy,
            has_reasoning_parser=self.configured.names.reasoning is not None,
            shows_unused_tools=not self.config.exclude_tools_when_tool_choice_none,
            shows_only_named=engine == "sglang",
        )
        preprocessor = PromptPreprocessor(
            prompts,
            files,
            self.prompt_queue,
            self.context_length,
            may_block=self.selection.backend == "python",
        )
        self.log_model(f"rendered without an engine, tokenizer {self.selection.label}", names)
        return Blocks(preprocessor, local_factories)

    def _load_files(self, engine: str) -> ModelPrompts | PythonPrompts:
        """Return the model's tokenizer with its other files, which builds prompts."""
        module, class_name = self.selection.module, self.selection.class_name
        template, length = self.flags.chat_template, self.context_length
        if module and class_name:
            self.log_uncached(f"{class_name} encodes texts in a way of its own")
            own = load(module, class_name, self.path)
            return PythonPrompts(own, self.path, template, engine, length)
        files = ModelPrompts(self.path, template, engine, length, self.prompt_cache)
        self.log_uncached(files.encoder.why_uncached)
        return files


class HuggingFacePrompts:
    """Renders and tokenizes a request, in threads.

    runtime_config: the model card's. call_policy: whether grammars use the model's own syntax.
    has_reasoning_parser: whether the model has a reasoning parser, installed here or not; the
        engine's guided decoding must then know where reasoning ends.
    shows_unused_tools: pass the template the tools of a request that forbids calls.
    shows_only_named: pass it only the tool that a request demands by name.
    """

    def __init__(
        self,
        render: RenderTokenIds,
        runtime_config: JsonObject,
        call_policy: CallPolicy,
        *,
        has_reasoning_parser: bool,
        shows_unused_tools: bool = False,
        shows_only_named: bool = False,
    ) -> None:
        self._render = render
        self._call_policy = call_policy
        self._has_reasoning_parser = has_reasoning_parser
        self._thinking_mode = runtime_default_thinking_mode(runtime_config)
        self._shows_unused_tools = shows_unused_tools
        self._shows_only_named = shows_only_named

    def __call__(self, request: ChatRequest) -> Prompt:
        """Build the prompt. Raises `RequestError` and `TokenizerError`."""
        template_kwargs = self._build_template_kwargs(request)
        token_ids = self._render(
            request.raw["messages"],
            self._select_tools(request),
            model=request.model,
            **template_kwargs | _prompt_ending(request),
        )
        guided_decoding = self._call_policy.constrain(request)
        prompt = Prompt(token_ids, guided_decoding)
        if self._has_reasoning_parser:
            prompt.engine_fields = _build_engine_fields(request, template_kwargs)
        return prompt

    def _select_tools(self, request: ChatRequest) -> list[JsonObject] | None:
        hidden = request.tool_choice == "none" and not self._shows_unused_tools
        if request.tools is None or hidden:
            return None
        tools: list[JsonObject] = request.raw["tools"]
        name = request.named_function
        if name is not None and self._shows_only_named:
            return [tool for tool in tools if tool["function"]["name"] == name]
        return tools

    def _build_template_kwargs(self, request: ChatRequest) -> JsonObject:
        # Dynamo's HTTP layer accepts both names and passes on its own, the second.
        template_kwargs = dict(request.chat_template_kwargs or request.chat_template_args or {})
        if request.reasoning_effort is not None:
            template_kwargs["reasoning_effort"] = request.reasoning_effort
        with_mode: JsonObject = apply_default_thinking_mode_to_template_kwargs(
            template_kwargs,
            self._thinking_mode,
            request_has_root_thinking=request.thinking is not None,
        )
        return with_mode


def _prompt_ending(request: ChatRequest) -> JsonObject:
    """Return the arguments that change the end of the prompt, if the request sets them.

    A tokenizer of the user's may not know them.
    """
    arguments: JsonObject = {}
    if request.add_generation_prompt is False:
        arguments["add_generation_prompt"] = False
    if request.continue_final_message is True:
        arguments["continue_final_message"] = True
    return arguments


def _build_engine_fields(request: ChatRequest, template_kwargs: JsonObject) -> EngineFields:
    """Return the fields about reasoning that the engine's guided decoding needs.

    If it is uncertain, `reasoning_ended` stays unset: the engine then asks its own parser about
    the prompt, as Dynamo's vLLM preprocessor would do here.
    """
    fields = EngineFields(reasoning_parser_kwargs=ReasoningParserKwargs(template_kwargs))
    if template_kwargs.get("enable_thinking") is False or request.include_reasoning is False:
        fields.reasoning_ended = True
    # Workers read them from extra_args, because Dynamo's router drops undeclared fields.
    fields.extra_args = msgspec.to_builtins(fields)
    return fields
