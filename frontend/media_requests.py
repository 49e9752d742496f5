"""Requests with images, videos or audio, which only an engine's own back end can prepare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf

from ..base import limits
from ..base.errors import SetupError
from ..engines.dynamo.types import Context
from .chat_model import Prepared, Preprocessor
from .model_builder import ChatModelBuilder
from .request.chat_request import ChatRequest
from .request.validation import MEDIA_PARTS


class MediaPreprocessor:
    """A `chat_model.Preprocessor` that leaves requests with media to another one.

    text: prepares all others. load: returns the builder of the one for media. It is called with the
    first request that has any, since importing an engine takes seconds, and not again, unless it
    fails: then with the first one after `MEDIA_RETRY_S`.
    """

    def __init__(self, text: Preprocessor, load: Callable[[], Awaitable[ChatModelBuilder]]) -> None:
        self._text = text
        self._load = load
        self._media: asyncio.Future[Preprocessor] | None = None
        self._retry_at = inf

    @asynccontextmanager
    async def __call__(
        self, request: ChatRequest, context: Context | None = None
    ) -> AsyncIterator[Prepared]:
        """Prepare a request. Raises `SetupError` if the other one cannot be built."""
        preprocess = await self._find_media() if has_media(request) else self._text
        async with preprocess(request, context) as prepared:
            yield prepared

    async def _build(self) -> Preprocessor:
        loop = asyncio.get_running_loop()
        try:
            builder = await self._load()
            return (await builder.build()).preprocess
        except BaseException:
            self._retry_at = loop.time() + limits.MEDIA_RETRY_S
            raise

    async def _find_media(self) -> Preprocessor:
        if self._media is None or asyncio.get_running_loop().time() >= self._retry_at:
            self._retry_at = inf
            self._media = asyncio.ensure_future(self._build())
        # The request that began it may be cancelled.
        try:
            return await asyncio.shield(self._media)
        except SetupError:
            raise
        except Exception as error:
            # An engine reads the model's files, and may raise anything.
            raise SetupError(
                f"the engine's own back end, which media need, cannot be built ({error})."
            ) from error


def has_media(request: ChatRequest) -> bool:
    """Whether a message has a part that is not text."""
    return any(
        isinstance(part, dict) and part.get("type") in MEDIA_PARTS
        for message in request.raw["messages"]
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        for part in message["content"]
    )
