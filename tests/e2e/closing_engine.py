"""An engine that says when it is made, closed and freed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from backedge.base.json_types import JsonObject
from backedge.engines.dynamo.types import Context
from backedge.frontend.chat_model import ChatModel

logger = logging.getLogger(__name__)


class Closing:
    """Answers as Backedge does; part of a reference cycle."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._itself = self
        logger.warning("engine made")

    async def __call__(self, request: JsonObject, context: Context) -> AsyncIterator[JsonObject]:
        """Answer one chat request."""
        async for annotated in self._model.answer(request, context):
            yield annotated

    async def aclose(self) -> None:
        """Take a moment."""
        await asyncio.sleep(0.1)
        logger.warning("engine closed")

    def __del__(self) -> None:
        logger.warning("engine freed")
