"""A Dynamo worker around transformers, for any model that transformers loads; nothing is patched.

python -m backedge.worker.transformers --model MODEL
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import sys
import uuid
from collections.abc import AsyncGenerator, Callable
from functools import partial

from dynamo.common.backend.engine import EngineConfig, LLMEngine, LlmRegistration
from dynamo.common.backend.run import run
from dynamo.common.backend.worker import WorkerConfig
from transformers.generation.continuous_batching.requests import GenerationOutput
from typing_extensions import override

from ...base.errors import RequestError, exiting
from ...base.etcd import check_etcd
from ...base.flags import FlagParser, add_to, flag, parse_amount
from ...base.json_types import JsonObject
from ...base.log import get_logger
from ...base.ports import check_system_port
from ...base.seams import check_seams
from ...offline.completion import TokenLogprobs
from ...offline.contracts import ModelLoadConfig
from ...offline.model_text import ModelText
from ...offline.rows import Grammar, RowFailure, Sampling
from ...worker.llm_engine import (
    LLMEngineWorker,
    PostprocessedEngine,
    check_dynamo,
    parse_with_dynamos,
    read_flags,
)
from ..dynamo.types import GRAMMAR_WAITS, Context
from . import seams
from .batching import Batcher, Choice, Limits
from .offline import HfBackend
from .offline_hooks import Grammars
from .worker_request import EngineRequest, read_request

logger = get_logger(__name__)

TOKENS, BLOCKS, ANSWERS = (
    partial(parse_amount, unit=unit, least=1) for unit in ("tokens", "blocks", "answers")
)
FLAGS = (
    flag("--model", required=True, help="Folder or name of the model."),
    flag("--served-model-name", help="The name that clients use; default: --model."),
    flag(
        "--dtype", default="auto", help="Of the weights, as transformers names it; default: auto."
    ),
    flag("--device", help="Torch's name of the device; default: cuda where there is one, or cpu."),
    flag("--max-model-len", type=TOKENS, help="Limit for tokens of prompt and answer."),
    flag("--block-size", type=TOKENS, help="Tokens of one block of the cache."),
    flag("--num-blocks", type=BLOCKS, help="Blocks of the cache."),
    flag("--max-num-seqs", type=ANSWERS, help="Answers that one step continues."),
    flag("--max-num-batched-tokens", type=TOKENS, help="Tokens that one step computes."),
)


class TransformersEngine(LLMEngine):
    """The engine of one model.

    on_health: called when no request can be generated any more.
    vocabulary_size: number of the model's logits; None until the engine has started.
    """

    engine_name = "transformers"
    engine_version = importlib.metadata.version("transformers")

    def __init__(self, flags: argparse.Namespace, config: WorkerConfig) -> None:
        self.on_health: Callable[[bool], None] = lambda _: None
        self.vocabulary_size: int | None = None
        self._flags = flags
        self._config = config
        self._backend = HfBackend(
            ModelLoadConfig(
                flags.model,
                dtype=flags.dtype,
                max_model_len=flags.max_model_len,
                engine_args={"device": flags.device} if flags.device else {},
            )
        )
        self._text: ModelText
        self._batcher: Batcher | None = None
        self._context_length = 0
        self._grammars: Grammars | None = None

    @classmethod
    @override
    async def from_args(cls, argv: list[str] | None = None) -> tuple[LLMEngine, WorkerConfig]:
        """Build the engine that the flags name, post-processed. Raises SystemExit."""
        with exiting():
            settings, rest = read_flags(argv)
            flags, config = parse_arguments(rest)
            check_dynamo()
            check_seams(seams.WORKER, seams.PACKAGES)
            check_system_port()
            check_etcd(config.discovery_backend)
            engine = cls(flags, config)
            worker = LLMEngineWorker(engine, config, settings)
            engine.on_health = worker.report_engine
            return PostprocessedEngine(engine, worker), config

    @override
    async def start(self, worker_id: int) -> EngineConfig:
        """Load the model. Raises `SetupError`."""
        batcher = await asyncio.to_thread(self._load)
        return EngineConfig(
            model=self._config.model_name,
            served_model_name=self._config.served_model_name,
            # A grammar begins with the first token; Backedge's frontends put reasoning into it.
            runtime_data={GRAMMAR_WAITS: False},
            llm=LlmRegistration(
                context_length=self._context_length,
                kv_cache_block_size=batcher.block_size,
                total_kv_blocks=batcher.blocks,
                max_num_seqs=batcher.requests,
            ),
        )

    def _load(self) -> Batcher:
        self._text = self._backend.open()
        self._backend.load()
        model = self._backend.model
        self.vocabulary_size = model.config.get_text_config().vocab_size
        flags = self._flags
        limits = Limits(
            flags.block_size, flags.num_blocks, flags.max_num_seqs, flags.max_num_batched_tokens
        )
        self._batcher = batcher = Batcher(model, limits)
        room = (batcher.blocks - 1) * batcher.block_size
        self._context_length = min(self._text.context_length or room, room)
        return batcher

    @override
    async def generate(
        self, request: JsonObject, context: Context
    ) -> AsyncGenerator[JsonObject, None]:
        """Yield the outputs of all choices. Ending the generator ends the request."""
        from dynamo.llm.exceptions import InvalidArgument

        try:
            answer = await asyncio.to_thread(self._prepare, request, context.id())
        except RequestError as error:
            raise InvalidArgument(str(error)) from None
        try:
            self._begin(answer)
            async for output in answer.outputs():
                yield output
        finally:
            if self._batcher is not None:
                for request_id in answer.running:
                    self._batcher.cancel(request_id)

    def _prepare(self, request: JsonObject, context_id: str | None) -> Answer:
        """Read a request and compile its grammar. Raises `RequestError`."""
        decoded = read_request(request)
        assert self.vocabulary_size is not None, "not started"  # noqa: S101 - narrows the type
        sampling = decoded.resolve_sampling(self._text.generation_config, self.vocabulary_size)
        max_tokens = decoded.limit_tokens(self._context_length)
        stops = decoded.find_stops(self._text.eos_token_ids)
        grammar = self._compile(decoded.sampling_options.guided_decoding)
        seed = sampling.seed
        # As in vLLM, each of several choices has its own seed.
        choices = [
            Choice(
                decoded.token_ids, sampling, stops, grammar, None if seed is None else seed + index
            )
            for index in range(sampling.n)
        ]
        name = f"{context_id}-{uuid.uuid4().hex[:8]}"
        return Answer(name, decoded, sampling, choices, stops, max_tokens, self._fail)

    def _compile(self, guided: JsonObject | None) -> object:
        if not guided or all(value is None for value in guided.values()):
            return None
        if self._grammars is None:
            self._grammars = Grammars(self._text.tokenizer, self.vocabulary_size or 0)
        try:
            return self._grammars.compile(Grammar(guided, guided, json_calls=False))
        except RowFailure as failure:
            raise RequestError("guided_decoding", str(failure.error.message)) from failure

    def _begin(self, answer: Answer) -> None:
        batcher = self._batcher
        for index, request_id in enumerate(list(answer.running)):
            if batcher is None or not batcher.add(
                request_id,
                answer.request.token_ids,
                answer.choices[index],
                stops=answer.stops,
                max_tokens=answer.max_tokens,
                on_output=answer.take,
            ):
                raise self._fail("it has stopped")

    def _fail(self, problem: str) -> Exception:
        """Return Dynamo's exception; with an EngineShutdown it moves the request."""
        from dynamo.llm.exceptions import EngineShutdown, Unknown

        batcher = self._batcher
        if batcher is not None and batcher.runs:
            failure: Exception = Unknown(f"transformers: {problem}")
            return failure
        # At the end, Dynamo has withdrawn the worker before.
        if batcher is not None:
            logger.error("transformers generates nothing any more: %s", problem)
            self.on_health(False)
        moves: Exception = EngineShutdown(f"transformers: {problem}")
        return moves

    @override
    async def cleanup(self) -> None:
        """End all requests, and free the model."""
        batcher, self._batcher = self._batcher, None
        if batcher is not None:
            await asyncio.to_thread(batcher.stop)
        self._backend.close()


class Answer:
    """The outputs of one request. running: ids of its choices that have not ended, in order.

    fail: returns the exception for a failure of transformers.
    """

    def __init__(
        self,
        name: str,
        request: EngineRequest,
        sampling: Sampling,
        choices: list[Choice],
        stops: list[int],
        max_tokens: int,
        fail: Callable[[str], Exception],
    ) -> None:
        self.request, self.choices = request, choices
        self.stops, self.max_tokens = stops, max_tokens
        self.running = {f"{name}-{index}": index for index in range(len(choices))}
        self._asked = frozenset(request.asked_stops)
        self._sampling = sampling
        self._fail = fail
        self._taken = [0] * len(choices)
        self._outputs: asyncio.Queue[GenerationOutput] = asyncio.Queue()

    def take(self, output: GenerationOutput) -> None:
        """Take one of transformers' outputs."""
        self._outputs.put_nowait(output)

    async def outputs(self) -> AsyncGenerator[JsonObject, None]:
        """Yield outputs of Dynamo's form until all choices have ended."""
        while self.running:
            found = await self._outputs.get()
            if found.error is not None:
                self.running.pop(found.request_id, None)
                raise self._fail(str(found.error))
            yield self._read(found)

    def _read(self, found: GenerationOutput) -> JsonObject:
        index = self.running[found.request_id]
        taken = self._taken[index]
        token_ids = found.generated_tokens[taken:]
        self._taken[index] = end = taken + len(token_ids)
        output: JsonObject = {"index": index, "token_ids": token_ids}
        if self._sampling.logprobs is not None:
            output |= show_logprobs(
                self.choices[index].logprobs[taken:end], self._sampling.logprobs
            )
        if found.is_finished():
            del self.running[found.request_id]
            output |= self._read_end(token_ids)
        return output

    def _read_end(self, token_ids: list[int]) -> JsonObject:
        stopped = bool(token_ids) and token_ids[-1] in self.stops
        prompt, generated = len(self.request.token_ids), sum(self._taken)
        end: JsonObject = {
            "finish_reason": "stop" if stopped else "length",
            "completion_usage": {
                "prompt_tokens": prompt,
                "completion_tokens": generated,
                "total_tokens": prompt + generated,
            },
        }
        if stopped and token_ids[-1] in self._asked:
            end["stop_reason"] = token_ids[-1]
        return end


def show_logprobs(found: list[TokenLogprobs], alternatives: int) -> JsonObject:
    """Return the tokens' probabilities in Dynamo's form."""
    shown: JsonObject = {"log_probs": [value for each in found for value in each.own]}
    if alternatives:
        shown["top_logprobs"] = [
            [
                {"rank": top.rank, "token_id": top.token_id, "logprob": top.logprob}
                for top in position
            ]
            for each in found
            for position in each.top
        ]
    return shown


def parse_arguments(argv: list[str]) -> tuple[argparse.Namespace, WorkerConfig]:
    """Parse the worker's flags and Dynamo's. Raises SystemExit for a wrong one."""
    parser = FlagParser(prog="python -m backedge.worker.transformers")
    add_to(parser, FLAGS)
    return parse_with_dynamos(parser, argv)


def main() -> None:
    """Run the worker until the process is told to stop."""
    run(TransformersEngine, sys.argv[1:])


if __name__ == "__main__":
    main()
