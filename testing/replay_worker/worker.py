"""The replay worker in Dynamo: its handler, its model card and its endpoint."""

from __future__ import annotations

import argparse
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
from dynamo.common.utils.runtime import create_runtime
from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model
from dynamo.llm.exceptions import HttpError

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...engines.dynamo.types import Context, ResponseSender
from ...postprocess.messages import WorkerCard
from ...tokenization import set_tokenizer_config
from ...tokenization.tokenizer_selection import TokenizerSelection
from ...worker.egress import push
from ...worker.metrics import WorkerMetrics
from ...worker.request_check import check_engine_fields, refuse, show_refusal
from ...worker.request_stream import WorkerPostprocessor, read_params
from ...worker.stock_frontends import read_stock_params
from ...worker.worker_card import publish_worker_card
from .engine import ReplayEngine

KV_BLOCK_TOKENS = 32


class ReplayWorker:
    """Answers requests.

    engine: makes the outputs.
    postprocessor: None to leave post-processing to the frontend. stock: the same for requests
        from stock frontends.
    """

    def __init__(
        self,
        engine: ReplayEngine,
        postprocessor: WorkerPostprocessor | None,
        stock: WorkerPostprocessor | None = None,
    ) -> None:
        self.engine = engine
        self._postprocessor = postprocessor
        self._stock = stock

    async def generate(
        self,
        request: JsonObject,
        context: Context,
        response_sender: ResponseSender | None = None,
    ) -> AsyncGenerator[JsonObject, None]:
        """Yield or send the outputs of one request, post-processed if it asks for that.

        This is the endpoint's handler. It is an async generator because Dynamo treats an exception
        before the first output is requested as the death of the worker.
        Raises Dynamo's InvalidArgument as all workers that post-process.
        """
        try:
            if self._postprocessor is not None:
                check_engine_fields(request, None)
            replay = self.engine.start(request, context)
        except (RequestError, HttpError) as error:
            await anext(refuse(show_refusal(error)))
        outputs = replay.outputs()
        postprocessor, params = self._postprocessor, read_params(request)
        if params is None and self._stock is not None:
            postprocessor, params = self._stock, read_stock_params(request, context.id())
        if params is not None and postprocessor is not None:
            token_ids = request["token_ids"]
            outputs = postprocessor.stream(
                outputs, params, token_ids, replay, response_sender, context
            )
        elif response_sender is not None:
            outputs = push(outputs, response_sender)
        async for output in outputs:
            yield output


class ReplayModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model that the worker registers.

    folder: contains its tokenizer. worker_card: None for a worker that does not post-process.
    tokenizer: for frontends; without a back end they choose one.
    dyn_tool_call_parser, dyn_reasoning_parser: for frontends that parse themselves.
    """

    folder: Path
    name: str
    context_length: int | None = None
    worker_card: WorkerCard | None = None
    tokenizer: TokenizerSelection = TokenizerSelection()
    dyn_tool_call_parser: str | None = None
    dyn_reasoning_parser: str | None = None

    def build_runtime_config(self) -> ModelRuntimeConfig:
        """Return the part of the model card that Dynamo stores as runtime configuration."""
        config = ModelRuntimeConfig()
        config.context_length = self.context_length
        config.tool_call_parser = self.dyn_tool_call_parser
        config.reasoning_parser = self.dyn_reasoning_parser
        # A vLLM worker's default; without it Dynamo's Python frontend merges 20 tokens.
        config.set_engine_specific("stream_interval", "1")
        if self.worker_card is not None:
            publish_worker_card(self.worker_card, config)
        if self.tokenizer.backend is not None:
            set_tokenizer_config(config, *msgspec.structs.astuple(self.tokenizer))
        return config


async def serve(
    worker: ReplayWorker, model: ReplayModel, flags: argparse.Namespace, metrics: WorkerMetrics
) -> None:
    """Register the model and answer requests until the process is told to stop.

    flags: those of `add_runtime_flags`.
    """
    runtime, loop = create_runtime(flags.discovery_backend, flags.request_plane)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.shutdown)
    endpoint = runtime.endpoint(f"{flags.namespace}.backend.generate")
    metrics.expose(endpoint)
    await register_model(
        ModelInput.Tokens,
        ModelType.Chat | ModelType.Completions,
        endpoint,
        str(model.folder),
        model.name,
        kv_cache_block_size=KV_BLOCK_TOKENS,
        runtime_config=model.build_runtime_config(),
        worker_type=WorkerType.Aggregated,
    )
    runtime.set_health_status(ready=True)
    await endpoint.serve_endpoint(worker.generate)
