"""The building blocks of one model that the frontend serves.

`ChatModel.prepare` prepares a request for sending, `chunks` reads the workers' answers, and
`writer` writes them for the client. `answer` combines them; a user's engine (`--engine-factory`)
may call them itself.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import NamedTuple

import msgspec
from dynamo.frontend.utils import extract_mm_urls
from dynamo.llm.exceptions import Cancelled, InvalidArgument, Unknown, WorkerUnavailable

from ..base.errors import SetupError, shorten
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..engines.dynamo import types as dynamo
from ..guided.call_policy import ReasoningTags
from ..postprocess.fallback import Report
from ..postprocess.messages import KEY, Chunk, PostprocessedChunk, PostprocessParams, encode
from ..postprocess.postprocessor import Postprocessor, log_failure
from ..postprocess.settings import StreamCalls
from ..postprocess.stop_tokens import take_stop_tokens
from ..recording.recorder import Recorder, draw
from ..tokenization.model_files import read_vocabulary_size
from .grammar_start import GrammarStart
from .http_errors import REFUSALS, REFUSED_PROMPTS, as_http_errors, build_refusal
from .parser_selection import read_worker_card
from .request.chat_request import (
    ChatRequest,
    apply_metadata_options,
    decode_chat_request,
    write_reasoning_as_text,
)
from .request.validation import MEDIA_PARTS, check_request
from .response.guided_moves import GuidedMoves
from .response.openai_chunks import AnnotatedChunk, OpenAIChunkWriter
from .response.split_choices import SplitChoices
from .response.worker_stream import StreamReader, WorkerError
from .turns.turn_keeper import Conversation, LocalFactories, TurnKeeper

logger = get_logger(__name__)

NO_WORKER = "no worker could finish the answer; send the request again"
WORKER_FAILED = "the worker failed; the frontend's log has the reason"
MEDIA_COUNTS = {part: part.replace("_url", "_count") for part in MEDIA_PARTS}


class Prepared(msgspec.Struct):
    """A request that is ready to be sent.

    request: the client's. preprocessed: as Dynamo routes it; its `token_ids` are the prompt.
    params: for post-processing. conversation: None if the answer is not to be kept.
    grammar: of the answer, as for one without reasoning; None if it has none.
    """

    request: ChatRequest
    preprocessed: JsonObject
    params: PostprocessParams
    conversation: Conversation | None = None
    grammar: JsonObject | None = None


# Renders and tokenizes a request. Leaving the context manager, after the response, frees what the
# preprocessor holds for the request.
Preprocessor = Callable[[ChatRequest, dynamo.Context | None], AbstractAsyncContextManager[Prepared]]


class Blocks(NamedTuple):
    """The parts of a model that its tokenizer back end builds, as `ChatModel` takes them."""

    preprocess: Preprocessor
    local_factories: LocalFactories


WrapEngine = Callable[[dynamo.RoutedEngine], dynamo.RoutedEngine]
"""Returns an engine whose streams are post-processed outside of this process."""


def as_it_is(engine: dynamo.RoutedEngine) -> dynamo.RoutedEngine:
    """Return `engine`: this process post-processes the streams of plain workers."""
    return engine


class Deployment(NamedTuple):
    """A model as Dynamo has discovered it, and the frontend that serves it.

    instance_id: the model's first worker. card: the model's. engine: routes requests as the
        frontend's flags say. config: Dynamo's own flags. flags: the others, as parsed by
        `dynamo.frontend`. runtime: of this process; None if unknown.
    regenerates: whether malformed calls are to be generated again; for a `ChatModel`, whether
        they are. stream_calls: as of `PostprocessSettings`, for plain workers.
    """

    instance_id: dynamo.ModelInstance
    card: dynamo.ModelCard
    engine: dynamo.RoutedEngine
    config: dynamo.FrontendConfig
    flags: argparse.Namespace
    runtime: dynamo.Runtime | None = None
    regenerates: bool = False
    stream_calls: StreamCalls | None = None

    def endpoint(self) -> dynamo.Endpoint:
        """Return the endpoint of the model's workers, for your own router or client.

        Raises `SetupError` if the runtime is unknown.
        """
        if self.runtime is None:
            raise SetupError("Dynamo's runtime is unknown; run python -m backedge.frontend.")
        return self.runtime.endpoint(".".join(self.instance_id.triple()))


class ChatModel:
    """One model that the frontend serves.

    name: the name that clients use. path: the folder of its files, without weights.
    runtime_config: the model card's. deployment: all that Dynamo provides about the model.
    local_factories: build post-processing for plain workers' chunks; called with the first one.
    recorder: of its requests; None to record nothing. turns: None to keep none.
    reasoning: the markers of the reasoning that a grammar must let pass; None if the engine does.
    grammar_start: where the grammars of answers begin.
    wrap_engine: for the streams of plain workers. report: called for a parser of theirs that fails.
    """

    def __init__(
        self,
        deployment: Deployment,
        preprocess: Preprocessor,
        local_factories: LocalFactories,
        *,
        reasoning: ReasoningTags | None = None,
        report: Report = log_failure,
        wrap_engine: WrapEngine = as_it_is,
        recorder: Recorder | None = None,
        turns: TurnKeeper | None = None,
    ) -> None:
        card = deployment.card
        self.recorder = recorder
        self.turns = turns
        self.wrap_engine = wrap_engine
        self.report = report
        self.deployment = deployment
        self.name = card.name()
        self.path = card.local_dir()
        self.runtime_config = card.runtime_config()
        self._vocabulary_size = read_vocabulary_size(self.path)
        self._preprocess = preprocess
        self.local_factories = local_factories
        runtime_config = dynamo.read_runtime_config(card)
        self._is_plain = read_worker_card(runtime_config) is None
        self.grammar_start = GrammarStart(reasoning, self._is_plain, lambda: local_factories()[1])
        self._read_again_by = runtime_config.tool_call_parser

    async def answer(
        self, request: JsonObject, context: dynamo.Context
    ) -> AsyncGenerator[AnnotatedChunk, None]:
        """Answer one chat request; the last item of a failed one is Dynamo's HTTP error."""
        try:
            async with self.prepare(request, context) as prepared:
                writer = self.writer(prepared)
                async for chunk, processed in self.chunks(prepared, context):
                    for annotated in writer.write(chunk, processed):
                        yield annotated
        except REFUSALS as error:
            yield build_refusal(error)
        except Cancelled:
            return  # the client has left

    @asynccontextmanager
    async def prepare(
        self, request: JsonObject, context: dynamo.Context | None = None
    ) -> AsyncIterator[Prepared]:
        """Check, render and tokenize a request.

        request: in OpenAI's form; options in its metadata are moved to its fields.
        Raises Dynamo's InvalidArgument (HTTP 400) with the name of the invalid field,
        WorkerUnavailable (503), Unknown (500), and Cancelled if the client has left.
        """
        with as_http_errors():
            chat_request = decode_chat_request(request)
            apply_metadata_options(chat_request)
            check_request(chat_request, self._vocabulary_size)
            write_reasoning_as_text(chat_request)
            conversation = None
            preprocess = self._preprocess
            if self.turns is not None:
                conversation = await self.turns.restore(chat_request, context)
                if conversation is not None and conversation.restored:
                    preprocess = partial(self._preprocess_restored, self.turns, conversation)
            async with preprocess(chat_request, context) as prepared:
                if self.turns is not None and conversation is not None:
                    prepared.conversation = conversation if conversation.keeps else None
                    prepared.params = await self.turns.splice(
                        conversation, chat_request, prepared.preprocessed, prepared.params
                    )
                if self._is_plain:
                    prepared.params = take_stop_tokens(
                        prepared.preprocessed, prepared.params, self._is_special
                    )
                if self.recorder is not None:
                    prepared.params = msgspec.structs.replace(prepared.params, draw=draw())
                prepared.preprocessed.setdefault("extra_args", {})[KEY] = encode(prepared.params)
                start = self.grammar_start
                prepared.grammar = start.place(prepared.preprocessed, prepared.params)
                yield prepared

    @asynccontextmanager
    async def _preprocess_restored(
        self,
        turns: TurnKeeper,
        conversation: Conversation,
        request: ChatRequest,
        context: dynamo.Context | None,
    ) -> AsyncIterator[Prepared]:
        """Preprocess a request as restored, or as its client sent it if only that is accepted."""
        async with AsyncExitStack() as stack:
            prepared = None
            with contextlib.suppress(*REFUSED_PROMPTS):
                prepared = await stack.enter_async_context(self._preprocess(request, context))
            if prepared is None or not turns.leaves_room(request, prepared.params.prompt_length):
                turns.undo(conversation, request)
                own = await stack.enter_async_context(self._preprocess(request, context))
                if prepared is None or turns.leaves_room(request, own.params.prompt_length):
                    prepared = own
                    turns.forget(conversation)
            yield prepared

    def _is_special(self, token_id: int) -> bool:
        detokenizers, _ = self.local_factories()
        return detokenizers.is_special(token_id)

    async def chunks(
        self, prepared: Prepared, context: dynamo.Context, engine: dynamo.RoutedEngine | None = None
    ) -> AsyncIterator[tuple[Chunk, PostprocessedChunk]]:
        """Route the request; yield each chunk of the worker, and its post-processed form.

        engine: routes instead of Dynamo's own.
        Post-processes the chunks of a plain worker here. Raises Dynamo's WorkerUnavailable (503),
        Unknown (500), and InvalidArgument (400) if the worker refuses the request.
        """
        params, preprocessed = prepared.params, prepared.preprocessed
        prompt = preprocessed["token_ids"]
        recorder = None
        if self.recorder is not None:
            recorder = self.recorder.start(params, prompt, context)

        def make_postprocessor() -> Postprocessor:
            factories = self.local_factories()
            return Postprocessor(params, *factories, prompt_token_ids=prompt, report=self.report)

        reader = StreamReader(params, make_postprocessor, recorder)
        read = reader.read if recorder is None else reader.read_and_record
        collector = None
        if self.turns is not None and prepared.conversation is not None:
            collector = self.turns.collect(
                prepared.conversation, preprocessed, params, reader.token_ids
            )
        engine = self.wrap_engine(engine or self.deployment.engine)
        moving = self._let_move(engine, prepared, reader)
        try:
            async for chunk in read(moving, preprocessed, context):
                if collector is not None:
                    collector.add(chunk[1].deltas)
                yield chunk
        except WorkerError as error:
            logger.warning("request %s: %s", params.response_id, error)
            if error.retryable:
                raise WorkerUnavailable(NO_WORKER) from error
            raise Unknown(WORKER_FAILED) from error
        except InvalidArgument as error:
            reason = shorten(str(error.__cause__ or error))
            logger.warning("request %s: the worker refuses it: %s", params.response_id, reason)
            raise

    def _let_move(
        self,
        engine: dynamo.RoutedEngine,
        prepared: Prepared,
        reader: StreamReader,
    ) -> dynamo.RoutedEngine:
        """Return an engine that moves the request if its worker dies, where Dynamo would not."""
        limit, params = self.deployment.config.migration_limit, prepared.params
        grammar, start = prepared.grammar, self.grammar_start
        may_call = params.parser.parses_own_syntax and not params.parser.once
        if params.n > 1 and grammar is None and may_call and self.deployment.regenerates:
            return SplitChoices(engine, params)
        if grammar is None or params.n > 1 or not limit:
            return engine
        factories = self.local_factories
        return GuidedMoves(engine, limit, reader, params, grammar, start, factories)

    def writer(self, prepared: Prepared) -> OpenAIChunkWriter:
        """Return a writer of the client's chat.completion.chunks."""
        media, _ = extract_mm_urls(prepared.request.raw["messages"])
        counts = {MEDIA_COUNTS[kind]: len(items) for kind, items in (media or {}).items() if items}
        request = prepared.request
        prompt = prepared.preprocessed["token_ids"] if request.return_token_ids else []
        return OpenAIChunkWriter(
            prepared.params, counts, prompt, request.extra_fields, self._read_again_by
        )
