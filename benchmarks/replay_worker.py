"""A Dynamo worker without a model: it answers with the tokens of the example transcripts.

The runtime, the model card, the endpoint and the post-processing are the real
ones; only the engine is left out, whose matrix multiplications on a CPU would
hide everything that is measured. Started by `benchmarks.systems`; takes its
discovery and request plane from Dynamo's environment variables.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import uvloop
from backedge.postprocess.messages import KEY, Capability, encode
from backedge.postprocess.outputs import JsonDict
from backedge.worker.handler import WorkerPostprocessor, read_spec
from dynamo.common.utils.runtime import create_runtime
from dynamo.common.utils.token_ids import normalize_request_token_ids
from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model
from dynamo.runtime.logging import configure_dynamo_logging

from tools.stack import MODEL_NAME

from .answers import KINDS, TINY_MODEL, answer, tokenizer

ENDPOINT = "dynamo.backend.generate"
KV_BLOCK_TOKENS = 32
# Behind the longest answer: room for the prompt, which stock frontends count, too.
PROMPT_TOKENS = 1024


class ReplayEngine:
    """Generates the known answer to each known question, one token per chunk.

    tokens: see `answers.answer`. pace: tokens per second of one stream; 0 for
    as fast as the event loop turns.
    """

    def __init__(self, tokens: int, pace: float) -> None:
        self._tokenizer = tokenizer()
        answers = [answer(kind, tokens) for kind in KINDS]
        self._answers = {known.question: known.token_ids for known in answers}
        self._pace = pace

    @property
    def longest(self) -> int:
        """Tokens of the longest answer."""
        return max(map(len, self._answers.values()))

    async def generate(self, request: JsonDict, context: Any) -> AsyncIterator[JsonDict]:
        """Yield the outputs of one request, of the form of Dynamo's vLLM handler.

        Raises LookupError for a question that no transcript asks.
        """
        prompt_token_ids = normalize_request_token_ids(request)["token_ids"]
        whole = self._answer(prompt_token_ids)
        token_ids = whole[: request["stop_conditions"].get("max_tokens")]
        start = asyncio.get_running_loop().time()
        for position, token_id in enumerate(token_ids):
            await self._step(start, position)
            if context.is_stopped():
                return
            output: JsonDict = {"index": 0, "token_ids": [token_id]}
            last = position == len(token_ids) - 1
            if position == 0 or last:
                output["completion_usage"] = _usage(len(prompt_token_ids), position + 1)
            if last:
                output["finish_reason"] = "stop" if len(token_ids) == len(whole) else "length"
            yield output

    async def _step(self, start: float, position: int) -> None:
        """Wait for the engine step of this token; also at full speed all streams take turns."""
        late = asyncio.get_running_loop().time() - start
        await asyncio.sleep(max(0.0, position / self._pace - late) if self._pace else 0)

    def _answer(self, prompt_token_ids: list[int]) -> list[int]:
        prompt = self._tokenizer.decode(prompt_token_ids)
        for question, token_ids in self._answers.items():
            if question in prompt:
                return token_ids
        raise LookupError(f"no transcript asks this: {prompt[-200:]!r}; known: {list(self._answers)}")


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


class PostprocessingEngine:
    """A `ReplayEngine` with Backedge around its `generate`, as `backedge.worker.vllm` puts it there."""

    def __init__(self, engine: ReplayEngine, tool_call_parser: str | None, reasoning_parser: str | None) -> None:
        from backedge.parsers.native.vllm import VllmParsers
        from backedge.postprocess.detokenizer import detokenizers
        from backedge.worker.metrics import ParserMetrics
        from vllm.tokenizers import get_tokenizer

        vllm_tokenizer = get_tokenizer(str(TINY_MODEL))
        parsers = VllmParsers(vllm_tokenizer, tool_call_parser, reasoning_parser)
        self._engine = engine
        self._postprocessor = WorkerPostprocessor(
            detokenizers(vllm_tokenizer), parsers, "degrade", ParserMetrics().report
        )

    def generate(self, request: JsonDict, context: Any) -> AsyncIterator[JsonDict]:
        """Yield the post-processed outputs, or the plain ones for a request without a spec."""
        outputs = self._engine.generate(request, context)
        spec = read_spec(request)
        if spec is None:
            return outputs
        token_ids = normalize_request_token_ids(request)["token_ids"]
        return self._postprocessor.stream(outputs, spec, token_ids, _end_choice)


async def _end_choice(_index: int) -> None:
    """End nothing: the replay ends with its stream, which is read no further."""


def _runtime_config(arguments: argparse.Namespace, context_length: int) -> ModelRuntimeConfig:
    runtime_config = ModelRuntimeConfig()
    runtime_config.context_length = context_length
    runtime_config.tool_call_parser = arguments.dyn_tool_call_parser
    runtime_config.reasoning_parser = arguments.dyn_reasoning_parser
    # As a vLLM worker says by default; without it the stock Python frontend merges 20 tokens.
    runtime_config.set_engine_specific("stream_interval", "1")
    if arguments.vllm_processing:
        capability = Capability(
            engine="vllm",
            engine_version=importlib.metadata.version("vllm"),
            tool_call_parser=arguments.tool_call_parser,
            reasoning_parser=arguments.reasoning_parser,
        )
        runtime_config.set_engine_specific(KEY, json.dumps(encode(capability)))
    return runtime_config


async def serve(arguments: argparse.Namespace) -> None:
    """Register the example model and answer requests until the process is ended."""
    runtime, _ = create_runtime(os.environ["DYN_DISCOVERY_BACKEND"], os.environ["DYN_REQUEST_PLANE"])
    endpoint = runtime.endpoint(ENDPOINT)
    replay = ReplayEngine(arguments.tokens, arguments.pace)
    generate = replay.generate
    if arguments.vllm_processing:
        generate = PostprocessingEngine(replay, arguments.tool_call_parser, arguments.reasoning_parser).generate
    await register_model(
        ModelInput.Tokens,
        ModelType.Chat,
        endpoint,
        str(TINY_MODEL),
        MODEL_NAME,
        kv_cache_block_size=KV_BLOCK_TOKENS,
        runtime_config=_runtime_config(arguments, replay.longest + PROMPT_TOKENS),
        worker_type=WorkerType.Aggregated,
    )
    await endpoint.serve_endpoint(generate)


def main() -> None:
    """Run the worker; the parser flags are those of `dynamo.vllm`."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--tokens", type=int, default=0, help="tokens per answer, about")
    parser.add_argument("--pace", type=float, default=0.0, help="tokens per second and stream; 0: full speed")
    parser.add_argument("--dyn-tool-call-parser")
    parser.add_argument("--dyn-reasoning-parser")
    parser.add_argument("--vllm-processing", action="store_true")
    parser.add_argument("--tool-call-parser")
    parser.add_argument("--reasoning-parser")
    configure_dynamo_logging()
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
