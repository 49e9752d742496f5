"""Your own engine that routes with Dynamo's `KvRouter`, in Python.

    python -m backedge.frontend --engine-factory my_router:OwnRouter

with examples/ on PYTHONPATH. Backedge does rendering, tokenization and post-processing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from backedge.base.json_types import JsonObject
from backedge.engines.dynamo.types import Context
from backedge.frontend.chat_model import ChatModel
from dynamo.llm import KvRouter, KvRouterConfig

logger = logging.getLogger(__name__)


class OwnRouter:
    """Created for each model, and closed when the model's last worker leaves.

    The model's `deployment` holds all that Dynamo provides: the card, the first worker, the
    frontend's flags, and the engine with which Dynamo would route.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        deployment = model.deployment
        block_size = deployment.config.kv_cache_block_size or 32
        # Without cache events from the workers, it remembers which prompts it sent where.
        settings = KvRouterConfig(use_kv_events=False)
        self._router = KvRouter(deployment.endpoint(), block_size, settings)

    async def __call__(self, request: JsonObject, context: Context) -> AsyncIterator[JsonObject]:
        """Answer one chat request."""
        async with self._model.prepare(request, context) as prepared:
            writer = self._model.writer(prepared)
            async for chunk, processed in self._model.chunks(prepared, context, self):
                for annotated in writer.write(chunk, processed):
                    yield annotated

    async def generate(self, request: JsonObject, *, context: Context) -> AsyncIterator[JsonObject]:
        """Route a preprocessed request, instead of Dynamo's engine."""
        worker, _, overlap = await self._router.best_worker(request["token_ids"])
        logger.info("worker %s has %s blocks of the prompt", worker, overlap)
        stream: AsyncIterator[JsonObject] = await self._router.generate_from_request(request)
        return stream

    def close(self) -> None:
        """Log that the model has no more workers; called once."""
        logger.info("model %s is gone", self._model.name)
