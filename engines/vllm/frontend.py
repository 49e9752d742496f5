"""The forward edge of Dynamo's vLLM chat processor; the processor's backward edge is not used."""

from __future__ import annotations

import argparse
import asyncio
import logging
import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec
from dynamo.frontend import vllm_processor
from dynamo.frontend.vllm_processor import _inject_routing_metadata
from typing_extensions import override
from vllm.exceptions import VLLMValidationError
from vllm.reasoning import ReasoningParserManager
from vllm.renderers import hf
from vllm.tokenizers.registry import cached_get_tokenizer
from vllm.tool_parsers import ToolParserManager
from vllm.utils import func_utils
from vllm.utils.async_utils import make_async

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...frontend.chat_model import ChatModel, Prepared
from ...frontend.model_builder import ChatModelBuilder
from ...frontend.parser_names import FrontendParsers, InstalledParsers
from ...frontend.request.chat_request import ChatRequest
from ...frontend.request.postprocess_params import build_parser_request, build_postprocess_params
from ...frontend.request.preprocessed_request import EngineFields
from ...frontend.request.sampling import SamplingParams
from ...frontend.request.tool_schemas import (
    check_request_schemas,
    compiles_tools,
    with_standard_tools,
)
from ...frontend.runtime.containment import PreparationError
from ...frontend.runtime.prompt_queue import ClientGoneError
from ...frontend.runtime.short_prompts import ShortPrompts, is_short
from ...guided.call_policy import CallPolicy
from ...guided.request_schemas import has_schemas
from ...parsers.base import ParserFactory, ParserNames
from ...parsers.parser_lookup import linear_parsers
from ...templates.chat_template import find_variables, format_tools, render_with_time_limit
from ...templates.transformers_templates import bound_templates, check_template
from ...tokenization.detokenizer import detokenizers, read_vocabulary
from ...tokenization.prompt_limit import PromptLimit
from ...tokenization.transformers_tokenizers import NO_ENCODER, encode_with, make_encoder
from ..dynamo.types import Context, ModelCard, ModelInstance, RoutedEngine
from .frontend_errors import naming_fields
from .frontend_shortcuts import (
    AT_ONCE,
    FACTORY_FIELDS,
    SharedParsers,
    tokenize_in_place,
    unless_at_once,
    without_pool,
)
from .parsers import VllmParsers, check_names

logger = logging.getLogger(__name__)

INSTALLED = InstalledParsers(
    check_names, ToolParserManager.list_registered, ReasoningParserManager.list_registered
)


class VllmModelBuilder(ChatModelBuilder):
    """Builds models with vLLM's renderer and tokenizers. flags: vLLM's."""

    @override
    async def build(self, instance_id: ModelInstance, routed_engine: RoutedEngine) -> ChatModel:
        parsers = self.usable_parsers(INSTALLED)
        logger.info("model %s: vLLM's forward edge, parsers %s", self.card.name(), parsers)
        processor = await self._build_processor(parsers.names, instance_id, routed_engine)
        renderer = processor.input_processor.renderer
        limit = PromptLimit(processor.input_processor.model_config.max_model_len)
        wrap_chat_template(renderer, self.engine_name("vllm"), limit)
        await asyncio.to_thread(self._check_and_encode, processor.tokenizer)
        factories = detokenizers(processor.tokenizer), build_parsers(parsers, processor)
        policy = self.call_policy()
        short_prompts = ShortPrompts()

        def make_at_once(request: ChatRequest) -> Prepared | None:
            return processor.prepare_at_once(request, policy)

        @asynccontextmanager
        async def preprocess(
            request: ChatRequest, context: Context | None
        ) -> AsyncIterator[Prepared]:
            if has_schemas(request):
                await self.prompt_queue.run(check_request_schemas, request, context=context)
            elif processor.can_prepare_at_once(request) and is_short(request):
                made = await short_prompts.make(make_at_once, request, self.prompt_queue, context)
                if made is not None:
                    yield made
                    return
            async with self.prompt_queue.enter(
                processor.prepare(request, policy, context),
                characters=request.characters,
                context=context,
            ) as prepared:
                yield prepared

        model = ChatModel(self.describe(instance_id, routed_engine), preprocess, lambda: factories)
        weakref.finalize(model, release_caches, renderer)
        return model

    def _check_and_encode(self, tokenizer: Any) -> None:
        """Check the model's template, and have its tokenizer use the cache of prompts."""
        check_template(tokenizer)
        encoder = make_encoder(tokenizer, self.prompt_cache)
        self.log_uncached(NO_ENCODER if encoder is None else encoder.why_uncached)
        if encoder is not None:
            encode_with(tokenizer, encoder)

    async def _build_processor(
        self, names: ParserNames, instance_id: ModelInstance, routed_engine: RoutedEngine
    ) -> VllmProcessor:
        """Return the processor that Dynamo's factory makes of this model."""
        flags = argparse.Namespace(**vars(self.flags))
        # vLLM's forward edge renders and constrains with those of the parsers that vLLM has.
        bound_templates()
        hf._cached_resolve_chat_template_kwargs = find_variables  # noqa: SLF001 - vLLM has no hook
        installed = INSTALLED.select(names)
        flags.tool_call_parser, flags.reasoning_parser = installed.tool_call, installed.reasoning
        # The classes that the factory and its processor instantiate.
        vllm_processor.VllmProcessor = VllmProcessor
        vllm_processor.StreamingPostProcessor = AdjustedOutput
        tokenize_in_place()
        factory = vllm_processor.EngineFactory(self.config, flags)
        built: list[VllmProcessor] = []
        BUILT.set(built)
        # In the loop in which requests are prepared, since the processor's locks belong to it.
        await self.prompt_queue.loop.run(
            factory.chat_engine_factory(
                instance_id,
                FilteredCard(self.card, constrains=not self.call_policy().replaces_all),
                routed_engine,
            )
        )
        processor = built.pop()  # contexts live longer than models
        parser = processor.reasoning_parser_class
        # A parser of the user's may change with what it is asked.
        is_of_vllm = parser is not None and parser.__module__.startswith("vllm.")
        if is_of_vllm and processor.structural_tag_mode == "off":
            processor.reasoning_parser_class = SharedParsers(parser)
        return processor


class Renderer(Protocol):
    """vLLM's renderer of one model."""

    def shutdown(self) -> None:
        """End the renderer's threads."""
        ...


def wrap_chat_template(renderer: Renderer, engine: str, limit: PromptLimit) -> None:
    """Have `renderer` spell tools as `engine` does, and hold Jinja templates to their bounds.

    limit: of the text that a template makes.

    vLLM's renderers without Jinja run code of vLLM's own and are left as they are.
    """
    if not isinstance(renderer, hf.HfRenderer):
        return

    def render(
        model_config: object,
        tokenizer: Any,
        conversation: object,
        *,
        tools: list[JsonObject] | None = None,
        **options: object,
    ) -> object:
        formatted = tools if engine == "vllm" else format_tools(tools, engine)
        renders = tokenizer if options.get("tokenize") else without_pool(tokenizer)
        try:
            made = render_with_time_limit(
                lambda: hf.safe_apply_chat_template(
                    model_config, renders, conversation, tools=formatted, **options
                )
            )
        except (TimeoutError, VLLMValidationError) as error:
            raise RequestError.rejected(error) from error
        except Exception:
            raise
        except BaseException as error:
            raise PreparationError(error) from error
        if isinstance(made, str):
            limit.check(made, lambda part: len(tokenizer.encode(part, add_special_tokens=False)))
        return made

    in_executor = make_async(render, executor=renderer._executor)  # noqa: SLF001 - vLLM has no hook
    renderer._apply_chat_template_async = unless_at_once(render, in_executor)  # noqa: SLF001 - as above


def release_caches(renderer: Renderer) -> None:
    """Free what vLLM would keep of a model that is gone.

    The renderer is part of a reference cycle, so its threads would stay until the next garbage
    collection; and vLLM's caches hold up to 128 tokenizers.
    """
    renderer.shutdown()
    cached_get_tokenizer.cache_clear()
    func_utils._supports_kw.cache_clear()  # noqa: SLF001 - vLLM does not clear it itself


def build_parsers(parsers: FrontendParsers, processor: VllmProcessor) -> ParserFactory:
    """Return the parsers with which this frontend serves plain workers."""
    if parsers.native:
        model_config = processor.input_processor.model_config
        return VllmParsers(processor.tokenizer, parsers.names, model_config)
    return linear_parsers(parsers.names, read_vocabulary(processor.tokenizer))


class FilteredCard:
    """A model card without parser names: Dynamo's factory would look for them in vLLM alone.

    constrains: whether Dynamo may make grammars of tools as the card says.
    """

    def __init__(self, card: ModelCard, *, constrains: bool) -> None:
        self._card = card
        self._hidden = {"tool_call_parser": None, "reasoning_parser": None}
        if not constrains:
            self._hidden["structural_tag"] = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._card, name)

    def runtime_config(self) -> JsonObject:
        """Return what the workers registered, without what is hidden."""
        return {**self._card.runtime_config(), **self._hidden}


class EngineCoreRequest(Protocol):
    """What vLLM's input processor makes of a request. Source: `vllm.v1.engine`."""

    @property
    def sampling_params(self) -> SamplingParams:
        """The client's sampling parameters, adjusted by the parsers."""
        ...


class AdjustedRequest(Protocol):
    """The request as vLLM's parsers have adjusted it."""

    @property
    def include_reasoning(self) -> bool:
        """Whether the client gets the reasoning."""
        ...


class AdjustedOutput:
    """Takes the place of Dynamo's post-processor of one choice, whose parsers nobody would feed.

    request_for_sampling: the adjusted request.
    """

    def __init__(self, *, request_for_sampling: AdjustedRequest, **_: object) -> None:
        self.request_for_sampling = request_for_sampling


class VllmPreprocessed(msgspec.Struct):
    """A request as Dynamo's vLLM processor would send it."""

    request_id: str
    preprocessed: JsonObject
    prompt_length: int
    sampling: SamplingParams
    include_reasoning: bool


class VllmOptions(msgspec.Struct):
    """The sampling option that post-processing has to know of. It is in Dynamo's form."""

    guided_decoding: JsonObject | None = None


class VllmFields(EngineFields, kw_only=True):
    """The fields of Dynamo's own preprocessed request that post-processing has to know of."""

    sampling_options: VllmOptions


class VllmProcessor(vllm_processor.VllmProcessor):
    """Renders and tokenizes as Dynamo does, and stops where Dynamo would send the request."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._has_waited = False
        BUILT.get().append(self)

    @asynccontextmanager
    async def prepare(
        self, request: ChatRequest, policy: CallPolicy, context: Context | None = None
    ) -> AsyncIterator[Prepared]:
        """Prepare a request, as a `chat_model.Preprocessor` does."""
        if context is not None and context.is_stopped():
            raise ClientGoneError
        # Dynamo frees what it holds for a request when its generator is closed.
        raw = with_standard_tools(request) if compiles_tools(request) else request.raw
        raw = {**FACTORY_FIELDS, **move_documents(raw)}
        async with aclosing(super().generator(raw, context=context)) as stream:
            with naming_fields(request.raw):
                intercepted = await anext(stream)
            yield build_prepared(request, intercepted, policy)

    def can_prepare_at_once(self, request: ChatRequest) -> bool:
        """Whether a request can be prepared `AT_ONCE`: it is text, and no such one has waited.

        vLLM's renderers without Jinja tokenize in threads of their own.
        """
        return (
            not self._has_waited
            and isinstance(self.input_processor.renderer, hf.HfRenderer)
            and all(
                message.content is None or isinstance(message.content, str)
                for message in request.messages
            )
        )

    def prepare_at_once(self, request: ChatRequest, policy: CallPolicy) -> Prepared | None:
        """Prepare a request of text in this thread; nothing is held for it afterwards.

        Return None, and be asked no more, if vLLM or Dynamo waits for something. Raises as
        `prepare`.
        """

        async def enter() -> Prepared:
            async with self.prepare(request, policy) as prepared:
                return prepared

        token = AT_ONCE.set(True)
        coroutine = enter()
        try:
            coroutine.send(None)
        except StopIteration as end:
            prepared: Prepared = end.value
            return prepared
        except RuntimeError as error:
            if NO_LOOP not in str(error):
                raise
        finally:
            AT_ONCE.reset(token)
            coroutine.close()
        self._has_waited = True
        return None

    async def _generate_and_stream(
        self,
        request_id: str,
        request: JsonObject,
        dynamo_preproc: JsonObject,
        tokens: list[int],
        vllm_preproc: EngineCoreRequest,
        post_processors: dict[int, AdjustedOutput],
        mm_routing_info: JsonObject | None = None,
        context: Context | None = None,
    ) -> AsyncIterator[VllmPreprocessed]:
        """Yield the preprocessed request once; Dynamo's method sends it and yields the answer."""
        _inject_routing_metadata(dynamo_preproc, dynamo_preproc, mm_routing_info)
        yield VllmPreprocessed(
            request_id,
            dynamo_preproc,
            len(tokens),
            vllm_preproc.sampling_params,
            post_processors[0].request_for_sampling.include_reasoning,
        )


def move_documents(raw: JsonObject) -> JsonObject:
    """Return the request with the template's `documents` where vLLM looks for them."""
    for field in ("chat_template_kwargs", "chat_template_args"):
        documents = (raw.get(field) or {}).get("documents")
        if documents is not None:
            return {**raw, "documents": documents}
    return raw


def build_prepared(
    request: ChatRequest, intercepted: VllmPreprocessed, policy: CallPolicy
) -> Prepared:
    """Return the request, ready to be sent."""
    fields = msgspec.convert(intercepted.preprocessed, VllmFields)
    options = fields.sampling_options
    found = options.guided_decoding
    options.guided_decoding = policy.constrain(request, lambda: found)
    intercepted.preprocessed["sampling_options"]["guided_decoding"] = options.guided_decoding
    parser = build_parser_request(
        request,
        options.guided_decoding,
        fields.chat_template_kwargs,
        include_reasoning=intercepted.include_reasoning,
    )
    params = build_postprocess_params(
        intercepted.request_id, request, intercepted.sampling, intercepted.prompt_length, parser
    )
    return Prepared(request, intercepted.preprocessed, params)


# What asyncio says of whoever waits for something in a thread without an event loop.
NO_LOOP = "event loop"
# Dynamo's factory makes the processor in the task of its caller and keeps it to itself.
BUILT: ContextVar[list[VllmProcessor]] = ContextVar("BUILT")
