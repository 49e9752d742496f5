"""A forward edge without an engine: the model's tokenizer.json and chat template, and the linear parsers.

It imports neither vLLM nor torch. What it does not do, vLLM's edge does: images,
tokenizers of other kinds, grammars in the model's own tool syntax.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any

from dynamo.frontend.thinking import apply_default_thinking_mode_to_template_kwargs, runtime_default_thinking_mode
from dynamo.frontend.utils import random_uuid
from dynamo.llm import PythonAsyncEngine

from ..parsers.errors import SetupError
from ..parsers.format import Format
from ..parsers.registry import linear_parsers, reasoning_format, tool_format, uses_native
from ..postprocess.detokenizer import detokenizers, vocabulary_of
from .envelopes import Envelope
from .model_files import ModelFiles
from .names import ConfiguredNames, ParserNames, configured_names, warn_missing
from .options import apply_options
from .respond import Responder, refusing
from .sampling import preprocessed, sampling_of
from .spec import build_spec
from .validation import check

logger = logging.getLogger(__name__)


class LightFactory:
    """Makes one engine per model that Dynamo discovers.

    config: Dynamo's FrontendConfig. flags: tool_call_parser, reasoning_parser and chat_template.
    """

    def __init__(self, config: Any, flags: argparse.Namespace) -> None:
        if config.preprocess_workers:
            raise SetupError("--dyn-preprocess-workers has no processes to offer here; leave the flag out.")
        self._config = config
        self._flags = flags

    async def chat_engine_factory(self, instance_id: Any, card: Any, routed_engine: Any) -> Any:
        """Return the engine of one model, for Dynamo.

        Raises `SetupError` for a model whose files do not suffice, and
        `UnknownParserError` for a name that no linear parser has.
        """
        if not card.model_type().supports_chat():
            raise SetupError(f"model {card.name()!r} does not chat.")
        runtime_config = card.runtime_config()
        configured = configured_names(self._flags, runtime_config)
        names = parser_names(configured)
        files = ModelFiles(card.local_dir(), self._flags.chat_template)
        parsers = linear_parsers(names.tool_call, names.reasoning, vocabulary_of(files.tokenizer))
        responder = Responder(routed_engine, detokenizers(files.tokenizer), parsers)
        processor = LightProcessor(files, responder, runtime_config, reasons=configured.reasoning is not None)
        processor.shows_unused_tools = not self._config.exclude_tools_when_tool_choice_none
        logger.info("model %s: no engine's forward edge, parsers %s", card.name(), names)
        return PythonAsyncEngine(processor.generator, asyncio.get_running_loop())


def parser_names(configured: ConfiguredNames) -> ParserNames:
    """Return the parsers of a model, all linear.

    Raises `UnknownParserError` for a name among the flags or on the card of a plain worker.
    """
    if not configured.by_worker:
        uses_native("linear", configured.tool_call, configured.reasoning)
        return ParserNames(configured.tool_call, configured.reasoning)
    return ParserNames(_if_known(configured.tool_call, tool_format), _if_known(configured.reasoning, reasoning_format))


def _if_known(name: str | None, find: Callable[[str], Format | None]) -> str | None:
    if name is None or find(name) is not None:
        return name
    warn_missing(name)
    return None


class LightProcessor:
    """Renders, tokenizes and routes the chat requests of one model.

    runtime_config: the model card's. reasons: the model has a reasoning parser,
    known here or not, so the engine is told what decides where reasoning ends.
    shows_unused_tools: the template gets the tools of a request that forbids calls, too.
    """

    shows_unused_tools = False

    def __init__(
        self, files: ModelFiles, responder: Responder, runtime_config: dict[str, Any], *, reasons: bool
    ) -> None:
        self._files = files
        self._responder = responder
        self._reasons = reasons
        self._thinking_mode = runtime_default_thinking_mode(runtime_config)
        self._context_length = runtime_config.get("context_length") or files.context_length

    async def generator(self, request: dict[str, Any], context: Any = None) -> AsyncGenerator[Envelope, None]:
        """Answer one chat request; called by Dynamo.

        Raises InvalidArgument (HTTP 400) for a bad request, naming the field.
        """
        with refusing():
            apply_options(request)
            check(request)
            routed = await self.preprocess(request)
            include_reasoning = request.get("include_reasoning") is not False
            spec = build_spec(random_uuid(), request, routed, sampling_of(request), include_reasoning=include_reasoning)
            async for envelope in self._responder.respond(spec, request["messages"], routed, context):
                yield envelope

    async def preprocess(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the request as Dynamo routes it; `extra_args` without the spec. Raises `RequestError`."""
        template_kwargs = self._template_kwargs(request)
        tools = request.get("tools")
        if request.get("tool_choice") == "none" and not self.shows_unused_tools:
            tools = None
        text = self._files.template.render(
            request["messages"],
            tools,
            **{
                **template_kwargs,
                "add_generation_prompt": request.get("add_generation_prompt") is not False,
                "continue_final_message": request.get("continue_final_message") is True,
            },
        )
        # The tokenizer lets go of the interpreter; a long prompt must not hold up other streams.
        token_ids = await asyncio.to_thread(self._files.encode, text)
        routed = preprocessed(request, token_ids, self._files, self._context_length)
        if self._reasons:
            hints = self._reasoning_hints(request, template_kwargs)
            routed |= hints
            # Where the workers look for them: Dynamo's router knows no such fields.
            routed["extra_args"] = dict(hints)
        return routed

    def _template_kwargs(self, request: dict[str, Any]) -> dict[str, Any]:
        # Dynamo accepts both names, and hands over its own.
        given = dict(request.get("chat_template_kwargs") or request.get("chat_template_args") or {})
        if request.get("reasoning_effort") is not None:
            given["reasoning_effort"] = request["reasoning_effort"]
        template_kwargs: dict[str, Any] = apply_default_thinking_mode_to_template_kwargs(
            given, self._thinking_mode, request_has_root_thinking=request.get("thinking") is not None
        )
        return template_kwargs

    @staticmethod
    def _reasoning_hints(request: dict[str, Any], template_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return what the engine's guided decoding has to know of the reasoning in front of the answer.

        Where it is not certain, `reasoning_ended` is left out: the engine then asks
        its own parser about the prompt, as Dynamo's vLLM edge would do here.
        """
        hints: dict[str, Any] = {"reasoning_parser_kwargs": {"chat_template_kwargs": template_kwargs}}
        if template_kwargs.get("enable_thinking") is False or request.get("include_reasoning") is False:
            hints["reasoning_ended"] = True
        return hints
