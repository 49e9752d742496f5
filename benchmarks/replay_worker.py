"""The replay worker with answers of any length, post-processing like a vLLM worker.

The benchmarks measure it: the runtime, the model card, the endpoint and the post-processing
are the real ones. Only the engine is left out; on a CPU its matrix multiplications would hide
everything else. Started by `benchmarks.systems`; takes its discovery and request plane from
Dynamo's environment variables.
"""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import AsyncGenerator
from typing import get_args

import uvloop
from backedge.base.json_types import JsonObject
from backedge.engines.dynamo.types import Context
from backedge.parsers.base import ParserNames
from backedge.parsers.parser_lookup import Kind
from backedge.postprocess.settings import MERGE_DELAYS, PostprocessSettings
from backedge.templates.chat_template import ModelPrompts
from backedge.testing.replay_worker.engine import ReplayEngine
from backedge.testing.replay_worker.flags import add_runtime_flags
from backedge.testing.replay_worker.worker import ReplayWorker, serve, start_replay
from backedge.worker.engine_worker import EngineModel
from backedge.worker.flags import WorkerSettings
from dynamo.runtime.logging import configure_dynamo_logging
from typing_extensions import override

from tools.stack import MODEL_NAME

from .answers import KINDS, TINY_MODEL, Answers

# Room for the prompt besides the longest answer: stock frontends check both.
PROMPT_TOKENS = 1024


class VllmReplay(ReplayWorker):
    """A replay worker that post-processes like a vLLM worker."""

    engine_name = "vllm"
    engine_version = importlib.metadata.version("vllm")

    @override
    def load(self) -> EngineModel:
        from backedge.engines.vllm.worker import build_parsers
        from vllm.tokenizers import get_tokenizer

        vllm_tokenizer = get_tokenizer(str(TINY_MODEL))
        names = self.settings.names
        parsers = build_parsers(self.settings.parsers, names, vllm_tokenizer)
        return EngineModel(vllm_tokenizer, parsers, {})


class PlainWorker(ReplayWorker):
    """A worker as Dynamo has them: no post-processing, and chunks that are pulled."""

    @override
    def generate(  # type: ignore[override]  # Dynamo pulls, since there is no sender
        self, request: JsonObject, context: Context
    ) -> AsyncGenerator[JsonObject, None]:
        return start_replay(self.engine, request, context)


def main() -> None:
    """Run the worker; the parser flags are those of `dynamo.vllm`."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--tokens", type=int, default=0, help="tokens per answer, about")
    parser.add_argument(
        "--pace", type=float, default=0.0, help="tokens per second and stream; 0: full speed"
    )
    parser.add_argument(
        "--always", choices=KINDS, help="answer this to every request, whatever it asks"
    )
    parser.add_argument(
        "--prompt-tokens", type=int, default=PROMPT_TOKENS, help="for which the model has room"
    )
    parser.add_argument("--parsers", choices=get_args(Kind), default="auto")
    parser.add_argument("--postprocess-latency", choices=list(MERGE_DELAYS), default="balanced")
    parser.add_argument("--vllm-processing", action="store_true")
    parser.add_argument("--tool-call-parser")
    parser.add_argument("--reasoning-parser")
    add_runtime_flags(parser)
    configure_dynamo_logging()
    arguments = parser.parse_args()
    arguments.model, arguments.served_model_name = TINY_MODEL, MODEL_NAME
    answers = Answers(arguments.tokens, arguments.always)
    names = ParserNames(arguments.tool_call_parser, arguments.reasoning_parser)
    settings = WorkerSettings(
        names=names,
        parsers=arguments.parsers,
        post_processing=arguments.vllm_processing,
        postprocess=PostprocessSettings(delays=MERGE_DELAYS[arguments.postprocess_latency]),
    )
    engine = ReplayEngine(answers.find, tokens_per_second=arguments.pace)
    kind = VllmReplay if settings.post_processing else PlainWorker
    worker = kind(settings, engine, arguments, ModelPrompts(TINY_MODEL))
    worker.context_length = answers.longest + arguments.prompt_tokens
    if settings.post_processing:
        worker.build()
    uvloop.run(serve(worker, arguments))


if __name__ == "__main__":
    main()
