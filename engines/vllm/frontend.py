"""The frontend for vLLM: Dynamo's vLLM chat processor prepares requests, but does not send them."""

from __future__ import annotations

import argparse
import asyncio
import copy
import functools
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, ClassVar

import msgspec
from dynamo.frontend import vllm_processor
from dynamo.llm.exceptions import HttpError
from pydantic import ValidationError
from typing_extensions import override
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.exceptions import VLLMValidationError
from vllm.renderers import hf
from vllm.tokenizers import registry
from vllm.v1.engine import EngineCoreRequest

from ...base.errors import RequestError, SetupError, show
from ...base.json_types import JsonObject
from ...base.limits import MAX_LOOP_RENDER_MS, MAX_SHARED, MAX_SHARED_BYTES
from ...base.log import get_logger
from ...frontend.chat_model import Blocks, Prepared
from ...frontend.containment import contained
from ...frontend.model_builder import ChatModelBuilder
from ...frontend.parser_selection import select_installed
from ...frontend.prompt_preprocessor import ShortPrompts, is_short
from ...frontend.prompt_queue import ClientGoneError, PromptQueue
from ...frontend.request.chat_request import ChatRequest
from ...frontend.request.preprocessed_request import (
    EngineFields,
    build_parser_request,
    build_postprocess_params,
)
from ...frontend.request.tool_schema_cache import (
    check_request_schemas,
    compiles_tools,
    with_standard_tools,
)
from ...guided.call_policy import CallPolicy
from ...guided.guided_request import has_schemas
from ...parsers.api import Engine
from ...parsers.base import ParserNames
from ...templates.chat_template import find_variables
from ...templates.rendering import SlowTemplateError, allowing
from ...templates.transformers_tokenizers import (
    NO_ENCODER,
    bound_templates,
    check_has_template,
    check_template,
    make_encoder,
)
from ...tokenization.detokenizer import detokenizers
from ...tokenization.prompt_cache import PromptLimit
from ...tokenization.tokenizer_selection import MISTRAL_MODE, TokenizerSelection
from ..dynamo.types import Context, ModelCard
from .prompt_renderer import RENDERING, PromptRenderer, Rendering
from .seams import FILES

logger = get_logger(__name__)


class VllmModelBuilder(ChatModelBuilder):
    """Builds models with vLLM's renderer and tokenizers. flags: vLLM's."""

    native: ClassVar[Engine | None] = "vllm"

    @override
    async def build(self) -> Blocks:
        parsers = self.usable_parsers()
        await asyncio.to_thread(self.log_model, "vLLM renders", parsers.names)  # reads files
        processor = await self._build_processor(parsers.names)
        await asyncio.to_thread(self._replace_rendering, processor)
        tokenizer, model_config = processor.tokenizer, processor.input_processor.model_config
        factories = detokenizers(tokenizer), parsers.build("vllm", tokenizer, model_config)
        preprocess = VllmPreprocessor(processor, self.call_policy, self.prompt_queue)
        if FILES not in self.features_off:
            weakref.finalize(preprocess, registry.cached_get_tokenizer.cache_clear)
        return Blocks(preprocess, lambda: factories)

    async def _build_processor(self, names: ParserNames) -> VllmProcessor:
        flags = argparse.Namespace(**vars(self.flags))
        # vLLM renders and constrains with its own parsers only.
        installed = select_installed("vllm", names)
        flags.tool_call_parser, flags.reasoning_parser = installed.tool_call, installed.reasoning
        follow_card(flags, self.selection)
        if self.selection.mode == MISTRAL_MODE and self.call_policy.replaces_all:
            # Their grammar, which ours replaces, cannot be built with mistral-common 1.13.
            flags.tool_call_parser = flags.reasoning_parser = None
        bound_templates()
        hf._cached_resolve_chat_template_kwargs = find_variables  # noqa: SLF001 - no hook
        # The factory instantiates these two classes.
        vllm_processor.VllmProcessor = VllmProcessor
        vllm_processor.StreamingPostProcessor = AdjustedOutput
        factory = vllm_processor.EngineFactory(self.config, flags)
        built: list[VllmProcessor] = []
        BUILT.set(built)
        # In the loop that prepares requests, because the processor's locks belong to it.
        await self.prompt_queue.loop.run(
            factory.chat_engine_factory(
                self.deployment.instance_id,
                FilteredCard(self.card, constrains=not self.call_policy.replaces_all),
                self.deployment.engine,
            )
        )
        return built.pop()  # contexts live longer than models

    def _replace_rendering(self, processor: VllmProcessor) -> None:
        """Make `processor` render within limits, and tokenize with the prompt cache.

        vLLM's renderers without Jinja run vLLM's own code and are not replaced.
        Raises `SetupError` for no chat template, or one that cannot be compiled.
        """
        check_template(processor.tokenizer)
        renderer, config = (
            processor.input_processor.renderer,
            processor.input_processor.model_config,
        )
        if not isinstance(renderer, hf.HfRenderer):
            return self.log_uncached(NO_ENCODER)
        # The renderer's own tokenizer is a pool of copies. If all are borrowed, vLLM makes another
        # one, which holds the interpreter's lock as long as it takes to load a vocabulary.
        tokenizer = copy.copy(registry.cached_tokenizer_from_config(config))
        tokenizer.chat_template = processor.tokenizer.chat_template
        check_has_template(
            tokenizer,
            lambda: hf.resolve_chat_template(tokenizer, None, None, model_config=config),
        )
        # vLLM writes positions of such videos into the text, which must not be tokenized before.
        reads_text = renderer.use_unified_vision_chunk
        encoder = None if reads_text else make_encoder(tokenizer, self.prompt_cache)
        self.log_uncached(NO_ENCODER if encoder is None else encoder.why_uncached)
        renderer._apply_chat_template_async = PromptRenderer(  # noqa: SLF001 - vLLM has no hook
            tokenizer,
            encoder,
            self.engine_name("vllm"),
            PromptLimit(config.max_model_len),
            self.prompt_queue,
        )
        processor.renders_in_place = True
        return None


class VllmPreprocessor:
    """A `chat_model.Preprocessor` that prepares short texts in the event loop of its caller.

    vLLM and Dynamo prepare all others in the event loop of `prompt_queue`.
    """

    def __init__(
        self, processor: VllmProcessor, policy: CallPolicy, prompt_queue: PromptQueue
    ) -> None:
        self._processor = processor
        self._policy = policy
        self._prompt_queue = prompt_queue
        self._short_prompts = ShortPrompts()

    @asynccontextmanager
    async def __call__(
        self, request: ChatRequest, context: Context | None = None
    ) -> AsyncIterator[Prepared]:
        """Prepare a request. Raises `RequestError`, and as `PromptQueue.run`."""
        if has_schemas(request):
            await self._prompt_queue.run(check_request_schemas, request, context=context)
        elif self._processor.renders_in_place and is_text(request) and is_short(request):
            yield await self._prepare_short(request, context)
            return
        async with self._prompt_queue.enter(
            self._processor.prepare(request, self._policy, context),
            characters=request.characters,
            context=context,
        ) as prepared:
            yield prepared

    async def _prepare_short(self, request: ChatRequest, context: Context | None) -> Prepared:
        """Prepare a request for which no resources are held afterwards. Raises as `__call__`."""
        if self._short_prompts.trusted:
            with (
                contained(asyncio.CancelledError),
                suppress(SlowTemplateError),
                allowing(MAX_LOOP_RENDER_MS),
            ):
                return await self._prepare_timed(request)
        return await self._prompt_queue.run(
            lambda request: asyncio.run(self._prepare_timed(request)),
            request,
            characters=request.characters,
            context=context,
        )

    async def _prepare_timed(self, request: ChatRequest) -> Prepared:
        with self._short_prompts.timing():
            async with self._processor.prepare(request, self._policy, in_place=True) as prepared:
                return prepared


def follow_card(flags: argparse.Namespace, selection: TokenizerSelection) -> None:
    """Have vLLM load the tokenizer as the workers have, unless `flags` say how."""
    loaded = {"tokenizer_mode": selection.mode, "config_format": selection.config_format}
    for name, value in loaded.items():
        if value is not None and getattr(flags, name, None) in (None, "auto"):
            setattr(flags, name, value)


def check_template_name(given: str) -> None:
    """Raise `SetupError` for a chat template that is no file, no text, and none of vLLM's own."""
    try:
        vllm_processor.load_chat_template(given)
    except (OSError, ValueError, VLLMValidationError) as error:
        raise SetupError(f"--chat-template {given}: {error}") from error


def is_text(request: ChatRequest) -> bool:
    """Whether all messages are text, so that the prompt requires no downloads."""
    return all(
        message.content is None or isinstance(message.content, str) for message in request.messages
    )


class FilteredCard:
    """A model card without parser names, which Dynamo's factory would look for in vLLM only.

    constrains: whether Dynamo may build grammars of tools as the card says.
    """

    def __init__(self, card: ModelCard, *, constrains: bool) -> None:
        self._card = card
        self._hidden = {"tool_call_parser": None, "reasoning_parser": None}
        if not constrains:
            self._hidden["structural_tag"] = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._card, name)

    def runtime_config(self) -> JsonObject:
        """Return what the workers registered, without the hidden fields."""
        return {**self._card.runtime_config(), **self._hidden}


class AdjustedOutput:
    """Replaces Dynamo's post-processor of one choice, which is not used here.

    request_for_sampling: the adjusted request.
    """

    def __init__(self, *, request_for_sampling: ChatCompletionRequest, **_: object) -> None:
        self.request_for_sampling = request_for_sampling


class VllmPreprocessed(msgspec.Struct):
    """A request as Dynamo's vLLM processor would send it."""

    request_id: str
    preprocessed: JsonObject
    prompt_length: int
    spaces_between_special_tokens: bool
    include_reasoning: bool


class VllmOptions(msgspec.Struct):
    """The sampling option that post-processing needs, in Dynamo's form."""

    guided_decoding: JsonObject | None = None


class VllmFields(EngineFields, kw_only=True):
    """The fields of Dynamo's own preprocessed request that post-processing needs."""

    sampling_options: VllmOptions


class SharedParsers:
    """Builds vLLM's reasoning parsers, of which Dynamo would build two for each request.

    Dynamo has them adjust the request, and asks whether the prompt ends the reasoning. Neither
    changes a parser, so requests with the same chat template arguments share one.
    """

    def __init__(self, parser_class: Callable[..., object]) -> None:
        self._parser_class = parser_class
        self._made: dict[bytes, object] = {}

    def __call__(
        self, tokenizer: object, *, chat_template_kwargs: JsonObject, **options: object
    ) -> object:
        """Return a parser; `options` are the same for all requests of a model."""
        key = msgspec.json.encode(chat_template_kwargs)
        if key in self._made:
            return self._made[key]
        parser = self._parser_class(tokenizer, chat_template_kwargs=chat_template_kwargs, **options)
        if len(key) <= MAX_SHARED_BYTES:
            self._made[key] = parser
            for oldest in list(self._made)[:-MAX_SHARED]:
                self._made.pop(oldest, None)
        return parser


class VllmProcessor(vllm_processor.VllmProcessor):
    """Renders and tokenizes as Dynamo does, and stops before Dynamo would send the request."""

    reasoning_parser_class: Any

    @functools.wraps(vllm_processor.VllmProcessor.__init__)  # type: ignore[misc]  # its signature
    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.renders_in_place = False
        parser = self.reasoning_parser_class
        # A parser of a user's plugin may change when called.
        is_of_vllm = parser is not None and parser.__module__.startswith("vllm.")
        if is_of_vllm and self.structural_tag_mode == "off":
            self.reasoning_parser_class = SharedParsers(parser)
        BUILT.get().append(self)

    @asynccontextmanager
    async def prepare(
        self,
        request: ChatRequest,
        policy: CallPolicy,
        context: Context | None = None,
        *,
        in_place: bool = False,
    ) -> AsyncIterator[Prepared]:
        """Prepare a request, as a `chat_model.Preprocessor` does."""
        if context is not None and context.is_stopped():
            raise ClientGoneError
        raw = with_standard_tools(request) if compiles_tools(request) else request.raw
        RENDERING.set(Rendering(in_place, encodes=not request.add_special_tokens))
        # Dynamo frees a request's resources when its generator is closed.
        async with aclosing(
            super().generator(move_documents(request, raw), context=context)
        ) as stream:
            with naming_fields(request.raw):
                intercepted = await anext(stream)
            yield build_prepared(request, intercepted, policy)

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
        """Yield the preprocessed request once; Dynamo's method would send it."""
        vllm_processor._inject_routing_metadata(  # noqa: SLF001 - Dynamo has no other
            dynamo_preproc, dynamo_preproc, mm_routing_info
        )
        yield VllmPreprocessed(
            request_id,
            dynamo_preproc,
            len(tokens),
            bool(vllm_preproc.sampling_params.spaces_between_special_tokens),
            post_processors[0].request_for_sampling.include_reasoning,
        )


def move_documents(request: ChatRequest, raw: JsonObject) -> JsonObject:
    """Return the request with the template's `documents` where vLLM expects them."""
    for arguments in (request.chat_template_kwargs, request.chat_template_args):
        if arguments is not None and arguments.get("documents") is not None:
            return {**raw, "documents": arguments["documents"]}
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
        intercepted.request_id,
        request,
        intercepted.prompt_length,
        parser,
        spaces=intercepted.spaces_between_special_tokens,
    )
    return Prepared(request, intercepted.preprocessed, params)


# Dynamo's factory builds the processor in its caller's task and does not expose it.
BUILT: ContextVar[list[VllmProcessor]] = ContextVar("BUILT")


@contextmanager
def naming_fields(raw: JsonObject) -> Iterator[None]:
    """Raise `RequestError` for an error of vLLM that says which field is wrong.

    raw: the request.
    """
    try:
        yield
    except HttpError as error:
        if (named := _find_parameter(raw, error)) is not None:
            raise named from error
        raise
    except ValidationError as error:
        first = error.errors()[0]
        # Parts of messages are validated later, separately.
        is_whole = error.title == ChatCompletionRequest.__name__
        field = _find_path(raw, first["loc"]) if is_whole else "messages"
        raise _refused_value(field, first["input"], first["msg"]) from error


def _find_parameter(raw: JsonObject, error: HttpError) -> RequestError | None:
    """Return the error of vLLM that caused Dynamo's HTTP error, with its field.

    The text of an error without a parameter begins with the field's name, if it is about one.
    """
    cause = error.__cause__
    if not isinstance(cause, VLLMValidationError):
        return None
    if cause.parameter is not None:
        return _refused_value(cause.parameter, cause.value, cause.args[0])
    name = str(cause.args[0]).partition(" ")[0]
    return _refused_value(name, raw[name], cause.args[0]) if name in raw else None


def _refused_value(field: str, value: object, message: str) -> RequestError:
    return RequestError(field, f"cannot be {show(value)}: {message.rstrip('.')}")


def _find_path(raw: object, steps: Sequence[str | int]) -> str:
    """Return the JSON path of pydantic's error, whose steps also name types of pydantic's."""
    path = ""
    for position, step in enumerate(steps):
        is_last = position == len(steps) - 1
        if isinstance(raw, list) and isinstance(step, int) and step < len(raw):
            path, raw = f"{path}[{step}]", raw[step]
        elif isinstance(raw, dict) and (step in raw or (is_last and str(step).islower())):
            path, raw = f"{path}.{step}", raw.get(step)
    return path.removeprefix(".")
