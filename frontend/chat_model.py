"""One model as building blocks: prepare a request, read what the workers answer, write it for the client.

Put together they answer a chat request; `--engine-factory` takes them apart.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
from dynamo.frontend.utils import extract_mm_urls
from dynamo.llm.exceptions import Unknown, WorkerUnavailable

from ..parsers.base import ParserFactory
from ..postprocess.messages import KEY, Chunk, PostprocessedChunk, PostprocessParams, encode
from ..postprocess.postprocessor import Postprocessor
from ..tokenization.detokenizer import DetokenizerFactory
from .http_errors import as_http_errors
from .request.metadata_options import apply_metadata_options
from .request.validation import check
from .response.openai_chunks import AnnotatedChunk, OpenAIChunkWriter
from .response.worker_stream import StreamReader, WorkerError

logger = logging.getLogger(__name__)

Request = dict[str, Any]
Parts = Callable[[], tuple[DetokenizerFactory, ParserFactory]]
MEDIA_COUNTS = {"image_url": "image_count", "video_url": "video_count", "audio_url": "audio_count"}


class Prepared(msgspec.Struct):
    """A request that can be sent.

    request: the client's. preprocessed: as Dynamo routes it; its `token_ids` are the prompt.
    params: what post-processing has to know.
    """

    request: Request
    preprocessed: dict[str, Any]
    params: PostprocessParams


# (request, context) -> what prepares it; what that holds for the request is let go behind it.
Preprocessor = Callable[[Request, Any], AbstractAsyncContextManager[Prepared]]


class ChatModel:
    """One model that is served.

    name: under which clients ask for it. path: the folder of its files, without weights.
    runtime_config: of the model card.
    """

    def __init__(self, card: Any, edge: Preprocessor, engine: Any, parts: Parts) -> None:
        """Put the blocks together.

        card: Dynamo's. edge: see `Preprocessor`. engine: Dynamo's RoutedEngine.
        parts: with which a plain worker's chunks are post-processed here; asked for when one comes.
        """
        self.name: str = card.name()
        self.path: str = card.local_dir()
        self.runtime_config: dict[str, Any] = card.runtime_config()
        self._edge = edge
        self._engine = engine
        self._parts = parts

    async def answer(
        self, request: Request, context: Any = None
    ) -> AsyncGenerator[AnnotatedChunk, None]:
        """Answer one chat request: all of it.

        context: Dynamo's, of the request. Raises Dynamo's InvalidArgument (HTTP 400) for a
        bad request, naming the field, and WorkerUnavailable (503) or Unknown (500).
        """
        async with self.prepare(request, context) as prepared:
            writer = self.writer(prepared)
            async for chunk, post in self.chunks(prepared, context):
                for envelope in writer.write(chunk, post):
                    yield envelope

    @asynccontextmanager
    async def prepare(self, request: Request, context: Any = None) -> AsyncIterator[Prepared]:
        """Check, render and tokenize `request`, in OpenAI's form; it may be changed. Raises as `answer`."""
        with as_http_errors():
            apply_metadata_options(request)
            check(request)
            async with self._edge(request, context) as prepared:
                prepared.preprocessed.setdefault("extra_args", {})[KEY] = encode(prepared.params)
                yield prepared

    async def chunks(
        self, prepared: Prepared, context: Any = None
    ) -> AsyncIterator[tuple[Chunk, PostprocessedChunk]]:
        """Route the request and yield the worker's chunks with their meaning. Raises as `answer`.

        Where a worker has not post-processed, the same code does it here.
        """
        params, preprocessed = prepared.params, prepared.preprocessed
        prompt = preprocessed["token_ids"]
        reader = StreamReader(
            params, lambda: Postprocessor(params, *self._parts(), prompt_token_ids=prompt)
        )
        try:
            async for meaning in reader.read(self._engine, preprocessed, context):
                yield meaning
        except WorkerError as error:
            logger.warning("request %s: %s", params.response_id, error)
            raise (WorkerUnavailable if error.retryable else Unknown)(str(error)) from error

    def writer(self, prepared: Prepared) -> OpenAIChunkWriter:
        """Return what makes the client's chat.completion.chunks of the worker's chunks."""
        media, _ = extract_mm_urls(prepared.request["messages"])
        counts = {MEDIA_COUNTS[kind]: len(items) for kind, items in (media or {}).items() if items}
        return OpenAIChunkWriter(prepared.params, counts)
