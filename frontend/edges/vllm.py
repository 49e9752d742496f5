"""The forward edge of Dynamo's vLLM chat processor, with the backward edge replaced."""

from __future__ import annotations

import argparse
import logging
import weakref
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import Any

from dynamo.frontend import vllm_processor
from dynamo.frontend.vllm_processor import _inject_routing_metadata
from vllm.reasoning import ReasoningParserManager
from vllm.renderers import hf
from vllm.tokenizers.registry import cached_get_tokenizer
from vllm.tool_parsers import ToolParserManager
from vllm.utils import func_utils
from vllm.utils.async_utils import make_async

from ...parsers.base import ParserFactory
from ...parsers.errors import RequestError
from ...parsers.native.vllm import VllmParsers, check_names
from ...parsers.parser_lookup import linear_parsers
from ...tokenization.chat_template import render_in_time, spell_tools
from ...tokenization.detokenizer import detokenizers, read_vocabulary
from ..chat_model import ChatModel, Prepared, Request
from ..parser_names import FrontendParsers, Native
from ..request.postprocess_params import build_postprocess_params
from .base import ChatModelBuilder

logger = logging.getLogger(__name__)

NATIVE = Native(
    check_names, ToolParserManager.list_registered, ReasoningParserManager.list_registered
)


class VllmModelBuilder(ChatModelBuilder):
    """See `ChatModelBuilder`. flags: vLLM's."""

    async def model(self, instance_id: Any, routed_engine: Any) -> ChatModel:
        """See `ChatModelBuilder`."""
        parsers = self.parsers(NATIVE)
        flags = argparse.Namespace(**vars(self.flags))
        # vLLM's forward edge renders and constrains with vLLM's parsers, if it has any of that name.
        installed = NATIVE.installed(parsers.names)
        flags.tool_call_parser, flags.reasoning_parser = installed.tool_call, installed.reasoning
        logger.info("model %s: vLLM's forward edge, parsers %s", self.card.name(), parsers)
        vllm_processor.VllmProcessor = VllmProcessor  # which its factory makes
        stock = vllm_processor.EngineFactory(self.config, flags)
        made: list[VllmProcessor] = []
        MADE.set(made)
        # In the loop in which the requests are prepared: what waits there belongs to it.
        await self.prompt_queue.loop.run(
            stock.chat_engine_factory(instance_id, CardWithoutParsers(self.card), routed_engine)
        )
        processor = made.pop()  # contexts live longer than models
        set_template(processor.input_processor.renderer, self.engine("vllm"))
        parts = detokenizers(processor.tokenizer), build_parsers(parsers, processor)

        def prepare(request: Request, context: Any) -> AbstractAsyncContextManager[Prepared]:
            return self.prompt_queue.entered(processor.prepare(request, context))

        model = ChatModel(self.card, prepare, routed_engine, lambda: parts)
        weakref.finalize(model, let_go, processor.input_processor.renderer)
        return model


def set_template(renderer: Any, engine: str) -> None:
    """Have `renderer` spell tools as `engine` does, and stop Jinja templates that do not end.

    vLLM's renderers without Jinja run code of vLLM's own.
    """
    if not isinstance(renderer, hf.HfRenderer):
        return

    def render(model_config: Any, tokenizer: Any, conversation: Any, **options: Any) -> Any:
        if engine != "vllm":
            options["tools"] = spell_tools(options.get("tools"), engine)
        try:
            return render_in_time(
                lambda: hf.safe_apply_chat_template(
                    model_config, tokenizer, conversation, **options
                )
            )
        except TimeoutError as error:
            raise RequestError(
                "messages", conversation, f"what the model's chat template takes ({error})"
            ) from error

    renderer._apply_chat_template_async = make_async(render, executor=renderer._executor)  # noqa: SLF001


def let_go(renderer: Any) -> None:
    """Free what vLLM would keep of a model that is gone.

    Its objects refer to each other, so their threads would stay until the next garbage
    collection; and its caches hold up to 128 tokenizers.
    """
    renderer.shutdown()
    for cached in (cached_get_tokenizer, func_utils._supports_kw):  # noqa: SLF001
        cached.cache_clear()


def build_parsers(parsers: FrontendParsers, processor: VllmProcessor) -> ParserFactory:
    """Return the parsers with which this frontend serves plain workers."""
    if parsers.native:
        model_config = processor.input_processor.model_config
        return VllmParsers(processor.tokenizer, parsers.names, model_config)
    return linear_parsers(parsers.names, read_vocabulary(processor.tokenizer))


class CardWithoutParsers:
    """A model card whose parser names have been read: Dynamo's factory would look them up again, in vLLM alone."""

    def __init__(self, card: Any) -> None:
        self._card = card

    def __getattr__(self, name: str) -> Any:
        return getattr(self._card, name)

    def runtime_config(self) -> dict[str, Any]:
        """See Dynamo's ModelDeploymentCard."""
        return {**self._card.runtime_config(), "tool_call_parser": None, "reasoning_parser": None}


class VllmProcessor(vllm_processor.VllmProcessor):
    """Renders, tokenizes and routes as Dynamo does, up to where the request is sent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        MADE.get().append(self)

    @asynccontextmanager
    async def prepare(self, request: Request, context: Any = None) -> AsyncIterator[Prepared]:
        """See `chat_model.Preprocessor`."""
        # Dynamo lets go of what it holds for a request behind the response.
        async with aclosing(super().generator(request, context=context)) as prepared:
            yield await anext(prepared)

    async def _generate_and_stream(
        self,
        request_id: str,
        request: Request,
        dynamo_preproc: dict[str, Any],
        tokens: list[int],
        vllm_preproc: Any,
        post_processors: dict[int, Any],
        mm_routing_info: dict[str, Any] | None = None,
        context: Any = None,
    ) -> AsyncIterator[Prepared]:
        """Yield the request, ready to be sent; overrides Dynamo's, which sends it.

        post_processors: Dynamo's own, of which only the adjusted request is used.
        """
        params = build_postprocess_params(
            request_id,
            request,
            dynamo_preproc,
            vllm_preproc.sampling_params,
            include_reasoning=post_processors[0].request_for_sampling.include_reasoning,
        )
        _inject_routing_metadata(dynamo_preproc, dynamo_preproc, mm_routing_info)
        yield Prepared(request, dynamo_preproc, params)


# Dynamo's factory makes the processor itself, in the task of its caller, and keeps it.
MADE: ContextVar[list[VllmProcessor]] = ContextVar("MADE")
