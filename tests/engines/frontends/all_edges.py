"""The tokenizer back ends, and models that they build, without workers."""

from __future__ import annotations

import argparse
import asyncio
import copy
from types import SimpleNamespace
from typing import Any

from backedge.base.engines import has_engine
from backedge.engines.dynamo.types import ModelCard, read_runtime_config
from backedge.frontend.chat_model import ChatModel, Deployment, Prepared
from backedge.frontend.model_builder import load_builder
from backedge.frontend.parser_selection import read_worker_card
from backedge.frontend.prompt_queue import PromptQueue
from backedge.postprocess.messages import KEY, WorkerCard, encode
from backedge.tokenization.prompt_cache import PromptCache
from backedge.tokenization.tokenizer_selection import Backend, TokenizerSelection

from tests.frontend.doubles import Card, Instance

ALL: dict[Backend, TokenizerSelection] = {
    "huggingface": TokenizerSelection("huggingface"),
    "vllm": TokenizerSelection("vllm"),
    "sglang": TokenizerSelection("sglang"),
    "python": TokenizerSelection("python", "tests.engines.frontends.edge_tokenizer", "Wrapped"),
}
# Those whose engine has a folder here.
CHOICES = {
    backend: choice
    for backend, choice in ALL.items()
    if backend not in ("vllm", "sglang") or has_engine(backend)
}
ENGINES = ["vllm", "sglang"]
CONFIG: Any = SimpleNamespace(
    preprocess_workers=0,
    exclude_tools_when_tool_choice_none=True,
    migration_limit=0,
    trust_remote_code=False,
    kv_cache_block_size=None,
    debug_perf=False,
    interactive=True,
    http_port=0,
)


def card(engine: str, context_length: int = 2048) -> Card:
    """Return the model card of workers with this engine."""
    worker_card = WorkerCard(engine=engine, engine_version="1", tool_call_parser="hermes")
    return Card({"runtime_data": {KEY: encode(worker_card)}, "context_length": context_length})


async def load(
    backend: Backend,
    flags: argparse.Namespace,
    prompt_queue: PromptQueue,
    card: ModelCard,
    prompt_cache: PromptCache | None = None,
    engine: Any = None,
) -> ChatModel:
    """Return the model of `card` behind this back end's edge. engine: None: nothing is sent."""
    worker_card = read_worker_card(read_runtime_config(card))
    deployment = Deployment(Instance(), card, engine, CONFIG, flags)
    builder = load_builder(backend)(
        deployment, prompt_queue, CHOICES[backend], worker_card, prompt_cache
    )
    blocks = await builder.build()
    return ChatModel(deployment, *blocks, reasoning=builder.call_policy.reasoning)


def prepared(loop: asyncio.AbstractEventLoop, model: ChatModel, fields: dict[str, Any]) -> Prepared:
    """Return a request, ready to be sent."""

    async def prepare() -> Prepared:
        async with model.prepare({"model": "tiny", **copy.deepcopy(fields)}) as made:
            return made

    return loop.run_until_complete(prepare())
