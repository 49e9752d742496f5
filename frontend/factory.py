"""Makes one engine for each model that Dynamo discovers, with the back end that fits it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import importlib
import importlib.metadata
from collections.abc import AsyncIterator, Callable, Container

from dynamo.llm import PythonAsyncEngine
from dynamo.llm.exceptions import WorkerUnavailable

from ..base.errors import SetupError
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..engines.dynamo.types import (
    Context,
    FrontendConfig,
    ModelCard,
    ModelInstance,
    RoutedEngine,
    Runtime,
    read_runtime_config,
)
from ..recording.recorder import Recorder
from ..recording.recording import RecordedModel
from ..recording.redaction import Redactor
from ..recording.writer import RecordingWriter
from ..tokenization import read_tokenizer_config, split_name
from ..tokenization.prompt_cache import BYTES_PER_MB, PromptCache
from ..tokenization.tokenizer_selection import (
    ALLOW_MODULE_FLAG,
    MISTRAL_MODULE,
    Backend,
    TokenizerFiles,
    TokenizerSelection,
    find_engine_backend,
    select_tokenizer,
)
from .chat_model import Blocks, ChatModel, Deployment
from .flags import FrontendFlags
from .http_errors import REFUSALS, as_http_errors, build_refusal
from .media_requests import MediaPreprocessor
from .metrics import ENDPOINT, FrontendMetrics, LocalParsing
from .model_builder import ChatModelBuilder, load_builder
from .model_files import find_files
from .parser_selection import read_configured_parsers, read_worker_card
from .prompt_queue import PromptQueue
from .response.openai_chunks import AnnotatedChunk
from .teardown import RunningRequests, Teardown, close_when_idle, find_closing
from .turns.shared_turns import SharedTurns
from .turns.turn_keeper import TurnKeeper
from .turns.turn_store import TurnStore

logger = get_logger(__name__)

# (request in OpenAI's form, Dynamo's context) -> chunks for Dynamo's HTTP layer
Answer = Callable[[JsonObject, Context], AsyncIterator[AnnotatedChunk]]
UserEngine = Callable[[ChatModel], Answer]

# Our own tokenizers, for models without a tokenizer.json.
OWN_MODULES = frozenset({MISTRAL_MODULE})


class EngineFactory:
    """Replaces `dynamo.frontend.vllm_processor.EngineFactory`.

    config: Dynamo's own flags. flags: as parsed by `dynamo.frontend`, with tool_call_parser,
        reasoning_parser and chat_template. frontend_flags: ours.
    runtime: of this process, for the workers' endpoints and the metrics; None if unknown.
    Raises `SetupError` for a user's engine that cannot be imported.
    """

    def __init__(
        self,
        config: FrontendConfig,
        flags: argparse.Namespace,
        frontend_flags: FrontendFlags,
        runtime: Runtime | None = None,
    ) -> None:
        self._config = config
        self._flags = flags
        self._ours = ours = frontend_flags
        self._user_engine = find_user_engine(ours.user_engine) if ours.user_engine else None
        self._allowed_modules = OWN_MODULES.union(ours.allowed_modules)
        self._runtime = runtime
        self._prompt_queue = PromptQueue()
        self.prompt_cache = PromptCache(ours.prompt_cache_mb * BYTES_PER_MB)
        self._writer = RecordingWriter(ours.record, "frontend") if ours.record else None
        self._local_parsing = LocalParsing()
        turns = ours.turns
        self._turn_store = TurnStore(turns.megabytes * BYTES_PER_MB if turns else 0)
        self._shared_turns = (
            SharedTurns(turns.store, turns.expiry_s) if turns and turns.store else None
        )
        self._teardown = Teardown()
        if runtime is not None:
            counts = None if self._writer is None else self._writer.counts
            metrics = FrontendMetrics(
                self.prompt_cache, counts, self._turn_store, self._local_parsing
            )
            metrics.expose(runtime.endpoint(ENDPOINT))

    async def chat_engine_factory(
        self, instance_id: ModelInstance, card: ModelCard, routed_engine: RoutedEngine
    ) -> PythonAsyncEngine:
        """Return the engine of one model.

        Dynamo calls this for the first worker of a model, and drops the engine with the last one.
        A model that this frontend cannot serve answers each request with the reason (HTTP 503):
        Dynamo would not list it, so clients could not tell why.
        Raises `SetupError` for a model that is not a chat model.
        """
        if not card.model_type().supports_chat():
            raise SetupError(f"model {card.name()!r} serves no chat completions.")
        try:
            deployment = Deployment(
                instance_id,
                card,
                routed_engine,
                self._config,
                self._flags,
                self._runtime,
                self._ours.malformed_calls == "regenerate",
                self._ours.stream_calls,
            )
            answer = await self._build_answer(deployment)
        except SetupError as error:
            answer = refuse_requests(card.name(), str(error))
        except Exception as error:
            # An engine reads the model's files, and no seam may know a difference of versions.
            # Dynamo would drop the model, and clients would learn nothing.
            logger.exception("model %s could not be built", card.name())
            reason = f"its files or the installed versions do not fit ({type(error).__name__}: "
            answer = refuse_requests(card.name(), f"{reason}{error}); see docs/compatibility.md.")
        return PythonAsyncEngine(answer, asyncio.get_running_loop())

    async def _build_answer(self, deployment: Deployment) -> Answer:
        """Return the function that answers the requests. Raises `SetupError`."""
        card = deployment.card
        worker_card = read_worker_card(read_runtime_config(card))
        engine = None if worker_card is None else worker_card.engine
        names = read_configured_parsers(self._flags, read_runtime_config(card), worker_card).names
        files = find_files(card.local_dir(), self._flags, names)
        backend, selection = self._select_tokenizer(card, engine, files)

        async def load(backend: Backend) -> ChatModelBuilder:
            # In a thread, since importing an engine would delay other models' streams.
            builder_class = await asyncio.to_thread(load_builder, backend)
            # It renders the chat template if a parser is `auto`.
            return await asyncio.to_thread(
                builder_class,
                deployment,
                self._prompt_queue,
                selection,
                worker_card,
                self.prompt_cache,
            )

        builder = await load(backend)
        blocks = await builder.build()
        if (own := self._find_media_backend(builder, backend, engine)) is not None:
            text, build_own = blocks.preprocess, functools.partial(load, own)
            blocks = blocks._replace(preprocess=MediaPreprocessor(text, build_own))
        model = ChatModel(
            deployment._replace(regenerates=builder.regenerates),
            *blocks,
            reasoning=builder.call_policy.reasoning,
            report=self._local_parsing.report,
            wrap_engine=await builder.wrap_plain(blocks.local_factories, self._local_parsing),
            recorder=self.build_recorder(builder, blocks),
            turns=self._build_turns(builder, blocks),
        )
        if self._user_engine is None:
            answer = model.answer
            self._teardown.watch(answer)
            return answer
        return self._wrap_user_engine(self._user_engine(model))

    def _find_media_backend(
        self, builder: ChatModelBuilder, backend: Backend, engine: str | None
    ) -> Backend | None:
        """Return the back end for requests with media; None if `backend` prepares all requests.

        engine: of the model's workers; None if unknown.
        """
        chosen = builder.selection
        is_default = chosen.backend is None or chosen.module == MISTRAL_MODULE
        if self._ours.tokenizer.backend is not None or not is_default or not builder.reads_media:
            return None
        own = find_engine_backend(engine)
        return None if own == backend else own

    def _build_turns(self, builder: ChatModelBuilder, blocks: Blocks) -> TurnKeeper | None:
        if self._ours.turns is None:
            return None
        return TurnKeeper(
            self._ours.turns,
            self._turn_store,
            self._prompt_queue,
            blocks.local_factories,
            self._shared_turns,
            builder.context_length,
        )

    def build_recorder(self, builder: ChatModelBuilder, blocks: Blocks) -> Recorder | None:
        """Return what records the requests of a model; None to record nothing."""
        if self._ours.record is None or self._writer is None:
            return None
        card = builder.worker_card
        recorded = RecordedModel(
            path=builder.path,
            engine="" if card is None else card.engine,
            engine_version="" if card is None else card.engine_version,
            backedge_version=importlib.metadata.version("backedge"),
            parsers=builder.configured.names,
            kind=builder.kind,
        )

        def make_redactor() -> Redactor:
            detokenizers, _ = blocks.local_factories()
            return Redactor(detokenizers)

        return Recorder(self._ours.record, self._writer, "frontend", recorded, make_redactor)

    def _wrap_user_engine(self, engine: Answer) -> Answer:
        """Return the user's `engine` for Dynamo. It is closed when Dynamo drops it."""
        running = RunningRequests()
        answer = as_async_generator(engine, running)
        close = find_closing(engine)
        end = None if close is None else functools.partial(close_when_idle, close, running)
        self._teardown.watch(answer, end)
        return answer

    def _select_tokenizer(
        self, card: ModelCard, engine: str | None, files: TokenizerFiles
    ) -> tuple[Backend, TokenizerSelection]:
        """Return the back end for a model, and the flags that selected it. Raises `SetupError`.

        engine: of the model's workers; None if unknown.
        """
        flags = self._ours.tokenizer
        if flags.backend is None:
            advertised = read_tokenizer_config(card.runtime_config())
            check_allowed(card.name(), advertised, self._allowed_modules)
        else:
            advertised = TokenizerSelection()
            with contextlib.suppress(SetupError):  # of an entry that is not followed
                advertised = read_tokenizer_config(card.runtime_config())
        return select_tokenizer(flags, advertised, engine, files)


def refuse_requests(model: str, reason: str) -> Answer:
    """Log why `model` is not served; return an engine that tells clients, with HTTP 503."""
    logger.error("model %s is not served: %s", model, reason)

    async def refuse(*_: object) -> AsyncIterator[AnnotatedChunk]:
        yield build_refusal(WorkerUnavailable(f"model {model!r} is not served: {reason}"))

    return refuse


def check_allowed(model: str, advertised: TokenizerSelection, allowed: Container[str]) -> None:
    """Raise `SetupError` unless this frontend may import the tokenizer that workers name.

    A card is a message from another machine, which may name any module installed here.
    """
    module = advertised.module
    if module is not None and module not in allowed:
        raise SetupError(
            f"the workers of model {model!r} ask for the tokenizer {module}:"
            f"{advertised.class_name}, but this frontend imports a module that workers "
            f"name only if it is allowed; start it with {ALLOW_MODULE_FLAG} {module}, or choose "
            "the tokenizer with the frontend's own flags."
        )


def find_user_engine(name: str) -> UserEngine:
    """Return the object that `package.module:Factory` names. Raises `SetupError` with the cause."""
    module, attribute = split_name(name)
    try:
        found: UserEngine = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        # The user's module may raise anything.
        raise SetupError(
            f"--engine-factory {name}: it cannot be imported ({type(error).__name__}: {error})."
        ) from error
    if not callable(found):
        raise SetupError(
            f"--engine-factory {name}: it is {found!r}; name a class or a function that takes "
            "a ChatModel."
        )
    return found


def as_async_generator(answer: Answer, running: RunningRequests) -> Answer:
    """Wrap the user's `answer` in an async generator function, as Dynamo requires.

    running: counts its requests.
    """

    async def generator(request: JsonObject, context: Context) -> AsyncIterator[AnnotatedChunk]:
        try:
            with running.one_more(), as_http_errors():
                async for annotated in answer(request, context):
                    yield annotated
        except REFUSALS as error:
            yield build_refusal(error)

    return generator
