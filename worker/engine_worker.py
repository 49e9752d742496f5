"""Post-processing in a worker process, the same for all engines.

`patched_worker` adds it to Dynamo's workers of known engines, `llm_engine` to any engine with
Dynamo's own interface.
"""

from __future__ import annotations

import abc
import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Concatenate, Generic, NamedTuple, TypeVar, cast

import msgspec

from ..base.engines import load_native_parsers
from ..base.errors import PoolAbsentError, RequestError, SetupError, exiting
from ..base.gc_freeze import freeze_loaded
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..engines.dynamo.contexts import stop_together
from ..engines.dynamo.types import (
    GRAMMAR_WAITS,
    Context,
    DynamoParserFlags,
    Endpoint,
    ResponseSender,
    WorkerContext,
)
from ..guided.call_policy import find_call_format
from ..parsers.api import native_names, native_parsers
from ..parsers.base import ParserFactory, ParserNames
from ..parsers.parser_lookup import Kind, linear_parsers, uses_native
from ..parsers.response_template import describing_name
from ..postprocess.messages import PostprocessParams
from ..postprocess.settings import check_stream_calls
from ..postprocess.stop_tokens import take_stop_tokens
from ..recording.recording import RecordedModel
from ..templates.auto_parsers import resolve_auto
from ..tokenization import LazyTokenizer, set_tokenizer_config
from ..tokenization import load as load_tokenizer
from ..tokenization.detokenizer import DetokenizerFactory, read_vocabulary
from ..tokenization.tokenizer_selection import (
    MISTRAL_MODE,
    ModelRuntimeConfig,
    find_advertised,
)
from .build import build_postprocessors
from .decoding import (
    DetokenizerKind,
    OtherTokenizer,
    build_detokenizers,
    select_other,
)
from .discovery import DiscoveryEntry
from .egress import push_or_pull, take_sender
from .engine_request import EngineRequestHandle
from .flags import WorkerSettings
from .metrics import WorkerMetrics
from .pool import PoolSettings, PoolSupervisor
from .regeneration import Attempt, Regeneration, Regenerator
from .request_check import check_engine_fields, check_params, refuse
from .request_stream import WorkerPostprocessor, read_params
from .stock_frontends import read_stock_params
from .worker_card import build_worker_card, publish_worker_card

logger = get_logger(__name__)
ABSENT = "the pool or the engine is absent"

ConfigT = TypeVar("ConfigT")
HandlerT = TypeVar("HandlerT")
T = TypeVar("T")

OwnTokenizer = tuple[str, str, str]
"""Module and class of the user's own tokenizer, and the model's path."""
Generate = Callable[
    Concatenate[HandlerT, JsonObject, Context, ...], AsyncGenerator[JsonObject, None]
]
"""The method of one of Dynamo's handlers that generates."""


class GenerateCall(NamedTuple, Generic[HandlerT]):
    """One call of a handler that is post-processed.

    generate: the handler's method, with all of Dynamo's other arguments.
    token_ids: of the prompt, then those that another worker generated.
    is_stock: the call came from a stock frontend.
    """

    generate: Callable[[JsonObject, Context], AsyncIterator[JsonObject]]
    handler: HandlerT
    request: JsonObject
    context: Context
    params: PostprocessParams
    token_ids: list[int]
    is_stock: bool = False

    def start(self) -> AsyncIterator[JsonObject]:
        """Begin the generation of `request`, and return its outputs."""
        return self.generate(self.request, self.context)


class EngineModel(NamedTuple):
    """The engine's tokenizer, and the parsers for it.

    pool_arguments: JSON values from which the module's `pool_parts` builds both in a process
        of the pool, in addition to the parsers' names.
    """

    tokenizer: object
    parsers: ParserFactory
    pool_arguments: JsonObject


def call_generate(
    generate: Generate[HandlerT],
    handler: HandlerT,
    more: tuple[object, ...],
    options: dict[str, object],
    request: JsonObject,
    context: Context,
) -> AsyncGenerator[JsonObject, None]:
    """Call a handler's method. more, options: Dynamo's other arguments."""
    return generate(handler, request, context, *more, **options)


def choose_parsers(
    kind: Kind, names: ParserNames, tokenizer: object, native: Callable[[], ParserFactory]
) -> ParserFactory:
    """Build the parsers of this kind and these names for the engine's `tokenizer`.

    native: builds the engine's own.
    Raises `UnknownParserError` and `UnusableParserError`.
    """
    if uses_native(kind, names):
        # Expressions of a model's folder run in the pool alone.
        return build_described(None, names) if describing_name(names) else native()
    return linear_parsers(names, read_vocabulary(tokenizer))


def build_described(tokenizer: object, names: ParserNames) -> ParserFactory:
    """Return transformers' parsers of a description; None: as for `DescribedParsers`."""
    parsers: ParserFactory = load_native_parsers("transformers").DescribedParsers(tokenizer, names)
    return parsers


def find_names(
    names: ParserNames, model: str, kind: Kind, *, chat_template: str | None = None
) -> ParserNames:
    """Replace "auto" and "template" in `names`, for a worker whose engine has no parsers.

    Arguments and errors are as for `resolve_auto`.
    """
    known = native_names(kind, None)
    return resolve_auto(names, model, chat_template=chat_template, known=known, kind=kind)


def load_native(folder: str, names: ParserNames) -> ParserFactory:
    """Return the parsers of the first installed engine. Raises `SetupError`."""
    if importlib.util.find_spec("transformers") is None:
        raise SetupError("--postprocess-parsers native: transformers is not installed.")
    from transformers import AutoTokenizer

    return native_parsers(None, AutoTokenizer.from_pretrained(folder), names)


def name_parsers_in_rust(config: DynamoParserFlags) -> ParserNames:
    """Return the parsers that Dynamo's flags name for its Rust frontend; "" means no parser."""
    return ParserNames(config.dyn_tool_call_parser or None, config.dyn_reasoning_parser or None)


def pool_parts(
    module: str,
    names: dict[str, str | None],
    arguments: JsonObject,
    own_tokenizer: OwnTokenizer | None,
    detokenizer: DetokenizerKind = "table",
) -> tuple[DetokenizerFactory, ParserFactory]:
    """Build the factories of a pool process; runs in the fork server.

    module: of the adapter, whose `pool_parts` returns the tokenizer and the parsers.
    names: the fields of `ParserNames`, as decoded from JSON.
    """
    adapter = importlib.import_module(module)
    chosen = ParserNames(**names)
    described = bool(describing_name(chosen))
    tokenizer, parsers = adapter.pool_parts(ParserNames() if described else chosen, **arguments)
    if described:
        parsers = build_described(tokenizer, chosen)
    if own_tokenizer is not None:
        tokenizer = select_decoding(load_tokenizer(*own_tokenizer), tokenizer)
    return build_detokenizers(detokenizer, module, tokenizer), parsers


def select_decoding(own: LazyTokenizer, engines: object) -> object:
    """Return the tokenizer that decodes: the user's, unless it only builds prompts.

    Raises `TokenizerLoadError`.
    """
    return own if own.converts_text else engines


class Worker(abc.ABC, Generic[HandlerT]):
    """One worker process that post-processes."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.metrics = WorkerMetrics()
        self.parsers: ParserFactory
        self._postprocessor: WorkerPostprocessor | None = None
        self._stock: WorkerPostprocessor | None = None  # for requests of stock frontends
        self._pool: PoolSupervisor | None = None
        self._regenerator: Regenerator | None = None
        self._discovery = DiscoveryEntry()
        self._is_special: Callable[[int], bool]
        self._is_mistral = False

    # The parts that differ between the engines.

    @property
    @abc.abstractmethod
    def engine_name(self) -> str:
        """The engine's name, for cards, recordings and messages."""

    @property
    @abc.abstractmethod
    def engine_version(self) -> str:
        """The installed version of the engine."""

    @property
    @abc.abstractmethod
    def parsers_in_rust(self) -> ParserNames:
        """The names of the parsers that Dynamo's Rust frontend uses."""

    @property
    def grammar_waits(self) -> bool:
        """Whether the engine may start a grammar after the reasoning; its card may say more."""
        return True

    @property
    def tokenizer_mode(self) -> str | None:
        """The mode in which vLLM's code has loaded the tokenizer; None for the usual ones."""
        return MISTRAL_MODE if self._is_mistral else None

    @property
    def config_format(self) -> str | None:
        """The format of the model's configuration; None for the usual one."""
        return None

    @property
    @abc.abstractmethod
    def model_path(self) -> str:
        """The path or name of the model, as given to the engine."""

    @abc.abstractmethod
    def load(self) -> EngineModel:
        """Return the engine's tokenizer, and the parsers for it."""

    @abc.abstractmethod
    def find_vocabulary_size(self, handler: HandlerT) -> int | None:
        """Return the number of token ids that the engine knows; None if unknown."""

    @abc.abstractmethod
    def run(
        self, call: GenerateCall[HandlerT]
    ) -> tuple[AsyncIterator[JsonObject], EngineRequestHandle]:
        """Start a request; return its outputs, and the handle that controls it in the engine."""

    # The common parts.

    def build(self) -> None:
        """Load the tokenizer and try the parsers, before the engine loads anything."""
        model = self.load()
        settings = self.settings  # `load` may have found the parsers' names
        self.parsers = model.parsers
        # vLLM's class for mistral-common, and ours.
        self._is_mistral = hasattr(model.tokenizer, "is_tekken")
        own = self._own_tokenizer()
        if own is None:
            tokenizer = model.tokenizer
        else:
            # Raises errors of the class now.
            tokenizer = select_decoding(load_tokenizer(*own), model.tokenizer)
        processes = self.count_processes()
        detokenizers = build_detokenizers(settings.detokenizer, type(self).__module__, tokenizer)
        self._is_special = detokenizers.is_special
        self._regenerator = self._build_regenerator(tokenizer, detokenizers)
        if processes:
            self._pool = self._build_pool(processes, model.pool_arguments, own)
        model_on_record = RecordedModel(
            path=self.model_path, engine=self.engine_name, engine_version=self.engine_version
        )
        self._postprocessor, self._stock = build_postprocessors(
            settings,
            self.parsers,
            tokenizer,
            detokenizers,
            self._pool,
            model_on_record,
            self.parsers_in_rust,
            self.metrics,
        )

    def _build_regenerator(
        self, tokenizer: object, detokenizers: DetokenizerFactory
    ) -> Regenerator | None:
        """Return what generates malformed calls again, if the flags ask for it.

        Raises `SetupError` if there is no grammar for the model's calls, or flags contradict.
        """
        settings = self.settings.postprocess
        check_stream_calls(settings.malformed_calls, settings.stream_calls)
        if settings.malformed_calls != "regenerate":
            return None
        names = self.settings.names
        format_ = find_call_format(names, lambda: read_vocabulary(tokenizer).ids)
        if format_ is None:
            raise SetupError(
                "--postprocess-malformed-calls regenerate needs a grammar of the model's calls, "
                f"and the parser {names.tool_call!r} has none. Use 'open' or 'repair'."
            )
        streams = settings.stream_calls == "arguments"
        return Regenerator(format_, detokenizers.read, self.metrics.count_regenerated, streams)

    def _begin_regeneration(self, call: GenerateCall[HandlerT]) -> Regeneration | None:
        """Return what generates the malformed calls of a request again, if any does."""
        if self._regenerator is None or call.is_stock:
            return None
        attempt = functools.partial(self._start_attempt, call)
        return self._regenerator.begin(call.params, call.request, call.token_ids, attempt)

    def _start_attempt(
        self, call: GenerateCall[HandlerT], request: JsonObject, ending: str
    ) -> Attempt:
        """Have the engine go on where a malformed call began."""
        token_ids = list(request["token_ids"])
        whole = cast(WorkerContext, call.context)
        context = whole.detached(whole.id() + ending)
        again = call._replace(request=request, context=context, token_ids=token_ids)
        outputs, handle = self.run(again)
        return Attempt(stop_together(outputs, whole, context), handle)

    def count_processes(self) -> int:
        """Return how many processes of the pool to start. Raises as `pool_processes`."""
        settings = self.settings
        is_native = uses_native(settings.parsers, settings.names)
        return settings.pool_processes(is_native=is_native)

    def _build_pool(
        self, processes: int, arguments: JsonObject, own: OwnTokenizer | None
    ) -> PoolSupervisor:
        parts = {
            "module": type(self).__module__,
            "names": msgspec.structs.asdict(self.settings.names),
            "arguments": arguments,
            "own_tokenizer": own,
            "detokenizer": self.settings.detokenizer,
        }
        build = f"{__name__}:{pool_parts.__name__}"
        settings = PoolSettings(
            processes=processes,
            build=build,
            arguments=parts,
            parsers_name=self.parsers.name,
            postprocess=self.settings.postprocess,
        )
        return PoolSupervisor(settings, self.metrics.report, self._discovery.update)

    def other_tokenizer(self, path: str, *, trust_remote_code: bool) -> OtherTokenizer | None:
        """Return the tokenizer that the flags select instead of the engine's at `path`, if any.

        Raises `SetupError` as `select_other`.
        """
        return select_other(
            self.settings.tokenizer, self.engine_name, path, trust_remote_code=trust_remote_code
        )

    def _own_tokenizer(self) -> OwnTokenizer | None:
        """Return the user's own tokenizer, if the flags name one."""
        selection = self.settings.tokenizer
        if not (selection.module and selection.class_name):
            return None
        return selection.module, selection.class_name, self.model_path

    def attach(self, endpoint: Endpoint) -> None:
        """Serve the metrics with Dynamo's `endpoint`, by which frontends find the worker."""
        self.metrics.expose(endpoint)
        self._discovery.endpoint = endpoint

    def report_engine(self, is_there: bool) -> None:
        """Withdraw the worker from discovery while its engine cannot answer."""
        self._discovery.update(is_there, "engine")

    async def publish_worker_card(self, runtime_config: ModelRuntimeConfig | None) -> None:
        """Put tokenizer and worker's card on the model card, once the worker can post-process.

        The engine is loaded by now. runtime_config: None for a model that Dynamo registers without
        one.
        """
        freeze_loaded()
        if self._pool is not None:
            with exiting():
                await self._pool.ready()
        if runtime_config is None:
            return
        tokenizer = find_advertised(
            self.settings.tokenizer, self.engine_name, self.tokenizer_mode, self.config_format
        )
        if tokenizer.backend is not None:
            set_tokenizer_config(runtime_config, *msgspec.structs.astuple(tokenizer))
        if self._postprocessor is not None:
            card = build_worker_card(
                self.engine_name,
                self.engine_version,
                self.settings.names,
                regenerates=self._regenerator is not None,
            )
            publish_worker_card(card, runtime_config)
            if not self.grammar_waits:
                runtime_config.set_engine_specific(GRAMMAR_WAITS, "false")

    def with_postprocessing(self, generate: Generate[HandlerT]) -> Generate[HandlerT]:
        """Wrap a handler's method, to post-process requests with `PostprocessParams`.

        Dynamo may push or pull its chunks; `generate` itself is pulled.
        """
        from dynamo.common.utils.token_ids import normalize_request_token_ids
        from dynamo.health_check import HEALTH_CHECK_KEY

        @functools.wraps(generate)
        def generate_and_postprocess(
            handler: HandlerT,
            request: JsonObject,
            context: Context,
            *more: object,
            response_sender: ResponseSender | None = None,
            **options: object,
        ) -> AsyncGenerator[JsonObject, None]:
            start = functools.partial(call_generate, generate, handler, more, options)
            if not self._discovery.serves and HEALTH_CHECK_KEY in request:
                return push_or_pull(refuse(PoolAbsentError(ABSENT)), response_sender)
            try:
                check_engine_fields(request, self.find_vocabulary_size(handler))
                postprocessor, params = self._postprocessor, read_params(request)
                if params is None and self._stock is not None:
                    postprocessor = self._stock
                    params = read_stock_params(request, context.id())
                if params is None or postprocessor is None:
                    return push_or_pull(start(request, context), response_sender)
                token_ids = normalize_request_token_ids(request)["token_ids"] or []
                params = take_stop_tokens(request, params, self._is_special)
                check_params(params, len(token_ids))
            except (RequestError, ValueError, TypeError, KeyError) as error:
                return push_or_pull(refuse(error), response_sender)
            given = (start, handler, request, context, params, token_ids)
            call = GenerateCall(*given, is_stock=postprocessor is self._stock)
            again, (outputs, handle) = self._begin_regeneration(call), self.run(call)
            return postprocessor.stream(
                outputs, params, token_ids, handle, response_sender, context, again
            )

        take_sender(generate_and_postprocess, generate)
        return generate_and_postprocess
