"""Makes one engine for each model that Dynamo discovers, with the forward edge that fits it."""

from __future__ import annotations

import argparse
import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Container, Iterable

from dynamo.llm import PythonAsyncEngine
from dynamo.llm.exceptions import InvalidArgument

from ..parsers.errors import SetupError
from ..parsers.json_types import JsonObject
from ..postprocess.messages import WorkerCard
from ..tokenization import split_name
from ..tokenization.flags import ALLOW_MODULE_FLAG, BACKENDS, TokenizerSelection
from ..tokenization.selection import select_tokenizer
from .chat_model import ChatModel
from .dynamo_types import (
    Context,
    FrontendConfig,
    ModelCard,
    RoutedEngine,
    read_runtime_config,
)
from .edges import load_builder
from .http_errors import as_http_errors, build_refusal
from .parser_names import read_worker_card
from .response.openai_chunks import AnnotatedChunk
from .runtime.gc_control import collect_after
from .runtime.prompt_queue import PromptQueue

# (request in OpenAI's form, Dynamo's context) -> what Dynamo's HTTP layer takes
Answer = Callable[[JsonObject, Context], AsyncIterator[AnnotatedChunk]]
UserEngine = Callable[[ChatModel], Answer]

# Ours, for models without a tokenizer.json.
OWN_MODULES = frozenset({"backedge.tokenization.mistral"})


class EngineFactory:
    """Replaces `dynamo.frontend.vllm_processor.EngineFactory`.

    config: Dynamo's own flags. flags: as `dynamo.frontend` parsed them, with
        tool_call_parser, reasoning_parser and chat_template.
    tokenizer: for all models; without a back end, each model's workers decide.
    user_engine: answers requests instead of `ChatModel.answer`.
    allowed_modules: of tokenizers that workers may name on a model's card.
    """

    def __init__(
        self,
        config: FrontendConfig,
        flags: argparse.Namespace,
        tokenizer: TokenizerSelection | None = None,
        user_engine: UserEngine | None = None,
        allowed_modules: Iterable[str] = (),
    ) -> None:
        self._config = config
        self._flags = flags
        self._tokenizer = tokenizer or TokenizerSelection()
        self._user_engine = user_engine
        self._allowed_modules = OWN_MODULES.union(allowed_modules)
        self._prompt_queue = PromptQueue()

    async def chat_engine_factory(
        self, instance_id: object, card: ModelCard, routed_engine: RoutedEngine
    ) -> PythonAsyncEngine:
        """Return the engine of one model.

        Dynamo calls this when the first worker of a model comes, and drops the engine when the
        last one goes.
        Raises `SetupError` for a model that this frontend cannot serve.
        """
        if not card.model_type().supports_chat():
            raise SetupError(f"model {card.name()!r} serves no chat completions.")
        worker_card = read_worker_card(read_runtime_config(card))
        backend, selection = select_tokenizer(
            self._tokenizer,
            advertised_tokenizer(worker_card),
            None if worker_card is None else worker_card.engine,
        )
        if selection is not self._tokenizer:
            check_allowed(card.name(), selection, self._allowed_modules)
        # In a thread, since importing an engine would hold up other models' streams.
        builder_class = await asyncio.to_thread(load_builder, backend)
        builder = builder_class(
            self._config, self._flags, self._prompt_queue, selection, card, worker_card
        )
        model = await builder.build(instance_id, routed_engine)
        collect_after(model)
        answer = (
            model.answer
            if self._user_engine is None
            else as_async_generator(self._user_engine(model))
        )
        return PythonAsyncEngine(answer, asyncio.get_running_loop())


def advertised_tokenizer(worker_card: WorkerCard | None) -> TokenizerSelection:
    """Return the tokenizer that a model's workers ask for.

    A back end that this version does not know, from a newer worker, is ignored.
    """
    if worker_card is None or worker_card.tokenizer_backend not in BACKENDS:
        return TokenizerSelection()
    return TokenizerSelection(
        worker_card.tokenizer_backend, worker_card.tokenizer_module, worker_card.tokenizer_class
    )


def check_allowed(model: str, advertised: TokenizerSelection, allowed: Container[str]) -> None:
    """Raise `SetupError` unless this frontend may import the tokenizer that workers ask for.

    A card is a message from another machine: it may name any module that is installed here.
    """
    module = advertised.module
    if module is not None and module not in allowed:
        raise SetupError(
            f"the workers of model {model!r} ask for the tokenizer {module}:"
            f"{advertised.class_name}, and this frontend imports no module that a worker names "
            f"unless it is allowed; start it with {ALLOW_MODULE_FLAG} {module}, or choose the "
            "tokenizer with the frontend's own flags."
        )


def find_user_engine(name: str) -> UserEngine:
    """Return what `package.module:Factory` names. Raises `SetupError` with the cause."""
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


def as_async_generator(answer: Answer) -> Answer:
    """Return the user's `answer` as an async generator function, which is what Dynamo takes."""

    async def generator(request: JsonObject, context: Context) -> AsyncIterator[AnnotatedChunk]:
        try:
            with as_http_errors():
                async for annotated in answer(request, context):
                    yield annotated
        except InvalidArgument as error:
            yield build_refusal(error)

    return generator
