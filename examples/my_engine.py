"""An engine of your own: every conversation begins with a house rule, and the generated tokens are logged.

    python -m backedge.frontend --engine-factory my_engine:HouseRule      # with examples/ on PYTHONPATH

The forward edge, the routed workers and the post-processing are Backedge's.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

from backedge.frontend.chat_model import ChatModel, Request

logger = logging.getLogger(__name__)
RULE = {"role": "system", "content": "Answer briefly."}


class HouseRule:
    """Made once for each model, and let go with its last instance."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def __call__(self, request: Request, context: Any) -> AsyncIterator[dict[str, Any]]:
        """Answer one chat request."""
        request["messages"] = [RULE, *request["messages"]]
        async with self._model.prepare(request, context) as prepared:
            writer = self._model.writer(prepared)
            async for chunk, post in self._model.chunks(prepared, context):
                logger.info("%s: %s", prepared.params.response_id, chunk.token_ids)
                for envelope in writer.write(chunk, post):
                    yield envelope
