"""Your own engine: begins each conversation with a house rule, and logs token ids.

    python -m backedge.frontend --engine-factory my_engine:HouseRule

with examples/ on PYTHONPATH. Backedge does rendering, tokenization, routing and post-processing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from backedge.base.json_types import JsonObject
from backedge.engines.dynamo.types import Context
from backedge.frontend.chat_model import ChatModel

logger = logging.getLogger(__name__)
RULE = {"role": "system", "content": "Answer briefly."}


class HouseRule:
    """Created for each model, and dropped when the model's last worker leaves."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def __call__(self, request: JsonObject, context: Context) -> AsyncIterator[JsonObject]:
        """Answer one chat request."""
        request["messages"] = [RULE, *request["messages"]]
        async with self._model.prepare(request, context) as prepared:
            writer = self._model.writer(prepared)
            async for chunk, processed in self._model.chunks(prepared, context):
                logger.info("%s: %s", prepared.params.response_id, chunk.token_ids)
                for annotated in writer.write(chunk, processed):
                    yield annotated
