"""From the routed request to the client's envelopes, and from what goes wrong to HTTP: the same behind every edge."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from typing import Any

from dynamo.frontend.utils import extract_mm_urls
from dynamo.llm.exceptions import HttpError, InvalidArgument, Unknown, WorkerUnavailable

from ..parsers.base import ParserFactory
from ..parsers.errors import RequestError
from ..postprocess.detokenizer import DetokenizerFactory
from ..postprocess.messages import KEY, Spec, encode
from ..postprocess.request import Postprocessor
from .envelopes import Envelope, EnvelopeWriter
from .stream import StreamReader, WorkerError

logger = logging.getLogger(__name__)

MEDIA_COUNTS = {"image_url": "image_count", "video_url": "video_count", "audio_url": "audio_count"}


class Responder:
    """Answers the requests of one model; where the worker has not post-processed, the same code does it here.

    engine: Dynamo's RoutedEngine.
    """

    def __init__(self, engine: Any, detokenizers: DetokenizerFactory, parsers: ParserFactory) -> None:
        self._engine = engine
        self._detokenizers = detokenizers
        self._parsers = parsers

    async def respond(
        self, spec: Spec, messages: list[dict[str, Any]], preprocessed: dict[str, Any], context: Any
    ) -> AsyncIterator[Envelope]:
        """Route the request and yield the response.

        messages: the client's. preprocessed: as Dynamo routes it; gets the spec.
        """
        preprocessed.setdefault("extra_args", {})[KEY] = encode(spec)
        media, _ = extract_mm_urls(messages)
        counts = {MEDIA_COUNTS[kind]: len(items) for kind, items in (media or {}).items() if items}
        writer = EnvelopeWriter(spec, counts)
        token_ids = preprocessed["token_ids"]
        reader = StreamReader(
            spec, lambda: Postprocessor(spec, self._detokenizers, self._parsers, prompt_token_ids=token_ids)
        )
        try:
            async for chunk, post in reader.read(self._engine, preprocessed, context):
                for envelope in writer.write(chunk, post):
                    yield envelope
        except WorkerError as error:
            logger.warning("request %s: %s", spec.response_id, error)
            raise (WorkerUnavailable if error.retryable else Unknown)(str(error)) from error


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn what is wrong with a request into Dynamo's InvalidArgument (HTTP 400), which names the field."""
    try:
        yield
    except RequestError as error:
        raise InvalidArgument(str(error)) from error
    except HttpError as error:
        # Dynamo shows the client the text of this type only.
        if error.code == HTTPStatus.BAD_REQUEST:
            raise InvalidArgument(error.message) from error
        raise
    except ValueError as error:
        # Of the forward edge: vLLM's and pydantic's checks, with their text.
        raise InvalidArgument(str(error)) from error
