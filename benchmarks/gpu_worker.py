"""The worker of `benchmarks.gpu`: transformers computes, and recorded answers are what it sends.

A model of random weights writes no calls. So each token that it writes is replaced by the next one
of a recorded answer; what the engine computes, and when a token leaves it, stays the same.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

from backedge.base.json_types import JsonObject
from backedge.engines.dynamo.types import Context
from backedge.engines.transformers.worker import TransformersEngine, parse_arguments
from dynamo.common.backend.engine import LLMEngine
from dynamo.common.backend.run import run
from dynamo.common.backend.worker import WorkerConfig
from typing_extensions import override

from .answers import Answers


class ScriptedEngine(TransformersEngine):
    """transformers' batches with the tokens of recorded answers. tokens: of an answer, about."""

    tokens = 0

    def __init__(self, flags: argparse.Namespace, config: WorkerConfig) -> None:
        super().__init__(flags, config)
        self._answers = Answers(self.tokens)

    @override
    async def generate(
        self, request: JsonObject, context: Context
    ) -> AsyncGenerator[JsonObject, None]:
        script = await asyncio.to_thread(self._answers.find, request)
        asked = (request.get("stop_conditions") or {}).get("max_tokens") or len(script)
        stops = {"max_tokens": min(asked, len(script)), "ignore_eos": True}
        scripted = {"token_ids": request["token_ids"], "stop_conditions": stops}
        sent = 0
        async with aclosing(super().generate(scripted, context)) as outputs:
            async for output in outputs:
                end = sent + len(output["token_ids"])
                output["token_ids"] = script[sent:end]
                sent = end
                if output.get("finish_reason") and sent == len(script):
                    output["finish_reason"] = "stop"
                yield output


class PlainEngine(ScriptedEngine):
    """The same without post-processing, which is then the frontend's."""

    @classmethod
    @override
    async def from_args(cls, argv: list[str] | None = None) -> tuple[LLMEngine, WorkerConfig]:
        flags, config = parse_arguments(argv or [])
        return cls(flags, config), config


def main() -> None:
    """Run the worker; its flags are those of `backedge.worker.transformers`, and --tokens."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--tokens", type=int, default=0, help="of an answer, about")
    parser.add_argument("--vllm-processing", action="store_true", help="post-process")
    own, rest = parser.parse_known_args(sys.argv[1:])
    ScriptedEngine.tokens = own.tokens
    run(ScriptedEngine if own.vllm_processing else PlainEngine, rest)


if __name__ == "__main__":
    main()
