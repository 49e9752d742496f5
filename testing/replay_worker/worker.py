"""The replay worker in Dynamo: its handler, its model card and its endpoint."""

from __future__ import annotations

import argparse
import importlib.metadata
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

from dynamo.common.utils.runtime import create_runtime
from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model
from typing_extensions import override

from ...base.json_types import JsonObject
from ...engines.dynamo.types import Context, ResponseSender
from ...parsers.base import ParserNames
from ...parsers.parser_lookup import linear_parsers, uses_native
from ...tokenization.detokenizer import read_vocabulary
from ...worker.decoding import choose_tokenizer
from ...worker.egress import push_or_pull
from ...worker.engine_request import EngineRequestHandle
from ...worker.engine_worker import (
    EngineModel,
    GenerateCall,
    Worker,
    load_native,
    name_parsers_in_rust,
)
from ...worker.flags import WorkerSettings
from ..transcripts import Prompts
from .engine import ReplayEngine

KV_BLOCK_TOKENS = 32


class ReplayWorker(Worker[ReplayEngine]):
    """Answers requests as Dynamo's vLLM worker does, with recorded outputs.

    flags: name the model and the parsers of stock frontends. files: the model's.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        engine: ReplayEngine,
        flags: argparse.Namespace,
        files: Prompts,
    ) -> None:
        super().__init__(settings)
        self.engine = engine
        self.context_length = files.context_length
        self._flags = flags
        self._files = files
        self._generate = self.with_postprocessing(start_replay)

    @property
    @override
    def engine_name(self) -> str:
        return "replay"

    @property
    @override
    def engine_version(self) -> str:
        return importlib.metadata.version("backedge")

    @property
    @override
    def parsers_in_rust(self) -> ParserNames:
        return name_parsers_in_rust(self._flags)

    @property
    @override
    def model_path(self) -> str:
        return str(Path(self._flags.model).resolve())

    @override
    def count_processes(self) -> int:
        return 0  # its answers are known, so no parser is late

    @override
    def load(self) -> EngineModel:
        names, path = self.settings.names, self.model_path
        other = self.other_tokenizer(path, trust_remote_code=False)
        tokenizer = choose_tokenizer(other, lambda: self._files.tokenizer)
        # Without a pool, a description's expressions run here, each step with a deadline.
        if uses_native(self.settings.parsers, names):
            return EngineModel(tokenizer, load_native(path, names), {})
        return EngineModel(tokenizer, linear_parsers(names, read_vocabulary(tokenizer)), {})

    @override
    def find_vocabulary_size(self, handler: ReplayEngine) -> int | None:
        return None

    @override
    def run(
        self, call: GenerateCall[ReplayEngine]
    ) -> tuple[AsyncIterator[JsonObject], EngineRequestHandle]:
        replay = call.handler.start(call.request, call.context)
        return replay.outputs(), replay

    def generate(
        self,
        request: JsonObject,
        context: Context,
        response_sender: ResponseSender | None = None,
    ) -> AsyncGenerator[JsonObject, None]:
        """Yield or send the outputs of one request; the endpoint's handler.

        Raises Dynamo's InvalidArgument for an unknown prompt.
        """
        if self.settings.post_processing:
            return self._generate(self.engine, request, context, response_sender=response_sender)
        return push_or_pull(start_replay(self.engine, request, context), response_sender)

    async def build_runtime_config(self) -> ModelRuntimeConfig:
        """Return the part of the model card that Dynamo stores as runtime configuration."""
        config = ModelRuntimeConfig()
        config.context_length = self.context_length
        config.tool_call_parser = self._flags.dyn_tool_call_parser
        config.reasoning_parser = self._flags.dyn_reasoning_parser
        # A vLLM worker's default; without it Dynamo's Python frontend merges 20 tokens.
        config.set_engine_specific("stream_interval", "1")
        await self.publish_worker_card(config)
        return config


def start_replay(
    engine: ReplayEngine, request: JsonObject, context: Context
) -> AsyncGenerator[JsonObject, None]:
    """Return the outputs of a request, as they are."""
    return engine.start(request, context).outputs()


async def serve(worker: ReplayWorker, flags: argparse.Namespace) -> None:
    """Register the model and answer requests until the process is told to stop.

    flags: `model`, `served_model_name`, and those of `add_runtime_flags`.
    """
    runtime, loop = create_runtime(flags.discovery_backend, flags.request_plane)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.shutdown)
    endpoint = runtime.endpoint(f"{flags.namespace}.backend.generate")
    worker.attach(endpoint)
    await register_model(
        ModelInput.Tokens,
        ModelType.Chat | ModelType.Completions,
        endpoint,
        str(flags.model),
        flags.served_model_name or Path(worker.model_path).name,
        kv_cache_block_size=KV_BLOCK_TOKENS,
        runtime_config=await worker.build_runtime_config(),
        worker_type=WorkerType.Aggregated,
    )
    runtime.set_health_status(ready=True)
    await endpoint.serve_endpoint(worker.generate)
