"""A worker with a model for each of Dynamo's parsers; a request's prompt names its answer's pace.

    python -m tests.e2e.parsers_worker NAME:TOOL_PARSER:REASONING_PARSER...

A prompt has "ANSWER <pace> <text as hexadecimal> END".
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import uvloop
from backedge.base.json_types import JsonObject
from backedge.parsers.base import ParserNames
from backedge.postprocess.settings import MERGE_DELAYS, MergeDelays, PostprocessSettings
from backedge.worker.egress import push_or_pull
from backedge.worker.engine_request import EngineRequestHandle
from backedge.worker.metrics import WorkerMetrics
from backedge.worker.stock_frontends import (
    build_stock_postprocessor,
    find_markers,
    read_stock_params,
)
from dynamo.common.utils.runtime import create_runtime
from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model

from tests.support import TINY_MODEL, encode, tiny_detokenizers, tiny_tokenizer
from tests.worker.scripted import NEVER

PROMPT = "ANSWER {pace} {text} END"
# Tokens per output of the engine, seconds between two of them, merge delays.
PACES: dict[str, tuple[int, float, MergeDelays]] = {
    "at once": (1 << 20, 0.0, NEVER),
    "one merged": (1, 0.0, NEVER),
    "threes": (3, 0.0, MERGE_DELAYS["lowest"]),
    "groups": (7, 0.002, MergeDelays(content=0.02, tokens=0.02)),
}
# A plain worker's: each token in its own chunk, as Dynamo's parsers expect.
PLAIN = "plain"
METRICS = WorkerMetrics()


class Engine(EngineRequestHandle):
    """Generates one text at a pace."""

    def __init__(self, token_ids: Sequence[int], step: int, pause_s: float) -> None:
        self._token_ids, self._step, self._pause_s = token_ids, step, pause_s

    async def abort(self, index: int) -> None:
        """Do nothing: no request has stop strings."""

    def set_stream_interval(self, index: int, tokens: int) -> None:
        """Keep the pace."""

    async def outputs(self) -> AsyncGenerator[JsonObject, None]:
        for start in range(0, len(self._token_ids), self._step):
            end = start + self._step
            output: JsonObject = {"index": 0, "token_ids": list(self._token_ids[start:end])}
            if end >= len(self._token_ids):
                output["finish_reason"] = "stop"
            yield output
            await asyncio.sleep(self._pause_s)


class Model:
    """Answers the requests for one model. in_rust: the frontend's parsers."""

    def __init__(self, in_rust: ParserNames) -> None:
        markers = find_markers(in_rust, ParserNames())
        self._stock = {
            pace: build_stock_postprocessor(
                tiny_detokenizers(),
                markers,
                PostprocessSettings(delays=delays),
                METRICS,
                lambda error: error,
            )
            for pace, (_, _, delays) in PACES.items()
        }

    async def generate(
        self, request: JsonObject, context: Any, response_sender: Any = None
    ) -> AsyncGenerator[JsonObject, None]:
        prompt = tiny_tokenizer().decode(request["token_ids"], skip_special_tokens=False)
        found = re.search(PROMPT.format(pace="(.+?)", text="([0-9a-f]+)"), prompt)
        assert found is not None
        pace, text = found[1], bytes.fromhex(found[2]).decode()
        step, pause_s, _ = PACES.get(pace, (1, 0.0, NEVER))
        engine = Engine([*encode(text), *encode("<|im_end|>")], step, pause_s)
        if pace == PLAIN:
            outputs = push_or_pull(engine.outputs(), response_sender)
        else:
            params = read_stock_params(request, context.id())
            assert params is not None
            outputs = self._stock[pace].stream(
                engine.outputs(), params, request["token_ids"], engine, response_sender, context
            )
        async for output in outputs:
            yield output


async def serve(models: Sequence[str]) -> None:
    runtime, loop = create_runtime("file", "tcp")
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.shutdown)
    served = []
    for position, model in enumerate(models):
        name, tool, reasoning = (part or None for part in model.split(":"))
        assert name is not None
        endpoint = runtime.endpoint(f"dynamo.parsers{position}.generate")
        config = ModelRuntimeConfig()
        config.context_length = 16384
        config.tool_call_parser, config.reasoning_parser = tool, reasoning
        config.set_engine_specific("stream_interval", "1")
        kinds = ModelType.Chat | ModelType.Completions
        await register_model(
            *(ModelInput.Tokens, kinds, endpoint, str(TINY_MODEL), name),
            kv_cache_block_size=32,
            runtime_config=config,
            worker_type=WorkerType.Aggregated,
        )
        generate = Model(ParserNames(tool, reasoning)).generate
        served.append(asyncio.ensure_future(endpoint.serve_endpoint(generate)))
    await asyncio.gather(*served)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1:]))
