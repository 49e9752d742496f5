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
from backedge.testing.replay_worker.engine import ReplayEngine
from backedge.testing.replay_worker.flags import add_runtime_flags
from backedge.testing.replay_worker.worker import ReplayModel, ReplayWorker, serve
from backedge.worker.backend import InlineBackend
from backedge.worker.engine_worker import name_parsers_in_rust
from backedge.worker.metrics import WorkerMetrics
from backedge.worker.request_check import show_refusal
from backedge.worker.request_stream import WorkerPostprocessor
from backedge.worker.stock_frontends import build_stock_postprocessor, find_markers
from backedge.worker.worker_card import build_worker_card
from dynamo.runtime.logging import configure_dynamo_logging
from typing_extensions import override

from tools.stack import MODEL_NAME

from .answers import KINDS, TINY_MODEL, answer, tokenizer

# Room for the prompt besides the longest answer: stock frontends check both.
PROMPT_TOKENS = 1024


class Answers:
    """The answers to known questions.

    tokens: of each answer, about. always: the kind of the answer to every request; None to
    look for a known question in the prompt.
    """

    def __init__(self, tokens: int, always: str | None = None) -> None:
        self._tokenizer = tokenizer()
        self._always = None if always is None else answer(always, tokens).token_ids
        answers = [answer(kind, tokens) for kind in KINDS]
        self._answers = {known.question: known.token_ids for known in answers}

    @property
    def longest(self) -> int:
        """The number of tokens of the longest answer."""
        return max(map(len, self._answers.values()))

    def find(self, request: JsonObject) -> list[int]:
        """Return the answer's tokens. Raises LookupError for an unknown question."""
        if self._always is not None:
            return self._always
        prompt = self._tokenizer.decode(request["token_ids"])
        for question, token_ids in self._answers.items():
            if question in prompt:
                return token_ids
        raise LookupError(
            f"no transcript asks this: {prompt[-200:]!r}; known: {list(self._answers)}"
        )


class PlainWorker(ReplayWorker):
    """A worker as Dynamo has them: no post-processing, and chunks that are pulled."""

    @override
    async def generate(  # type: ignore[override]  # Dynamo pulls, since there is no sender
        self, request: JsonObject, context: Context
    ) -> AsyncGenerator[JsonObject, None]:
        async for chunk in super().generate(request, context):
            yield chunk


def build_postprocessor(
    arguments: argparse.Namespace, names: ParserNames, metrics: WorkerMetrics
) -> WorkerPostprocessor:
    """Return the post-processing of a vLLM worker with these flags."""
    from backedge.engines.vllm.worker import build_parsers
    from backedge.tokenization.detokenizer import detokenizers
    from vllm.tokenizers import get_tokenizer

    vllm_tokenizer = get_tokenizer(str(TINY_MODEL))
    parsers = build_parsers(arguments.parsers, names, vllm_tokenizer)
    settings = PostprocessSettings(delays=MERGE_DELAYS[arguments.postprocess_latency])
    backend = InlineBackend(detokenizers(vllm_tokenizer), parsers, settings, metrics.report)
    return WorkerPostprocessor(backend, metrics)


def build_stock(
    arguments: argparse.Namespace, names: ParserNames, metrics: WorkerMetrics
) -> WorkerPostprocessor:
    """Return the same for requests of Dynamo's Rust frontend."""
    from backedge.tokenization.detokenizer import detokenizers
    from vllm.tokenizers import get_tokenizer

    return build_stock_postprocessor(
        detokenizers(get_tokenizer(str(TINY_MODEL))),
        find_markers(name_parsers_in_rust(arguments), names),
        PostprocessSettings(delays=MERGE_DELAYS[arguments.postprocess_latency]),
        metrics,
        show_refusal,
    )


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
    metrics = WorkerMetrics()
    answers = Answers(arguments.tokens, arguments.always)
    names = ParserNames(arguments.tool_call_parser, arguments.reasoning_parser)
    post_processes = arguments.vllm_processing
    worker_card = build_worker_card("vllm", importlib.metadata.version("vllm"), names)
    engine = ReplayEngine(answers.find, tokens_per_second=arguments.pace)
    worker = (
        ReplayWorker(
            engine,
            build_postprocessor(arguments, names, metrics),
            build_stock(arguments, names, metrics),
        )
        if post_processes
        else PlainWorker(engine, None)
    )
    model = ReplayModel(
        folder=TINY_MODEL,
        name=MODEL_NAME,
        context_length=answers.longest + arguments.prompt_tokens,
        worker_card=worker_card if post_processes else None,
        dyn_tool_call_parser=arguments.dyn_tool_call_parser,
        dyn_reasoning_parser=arguments.dyn_reasoning_parser,
    )
    uvloop.run(serve(worker, model, arguments, metrics))


if __name__ == "__main__":
    main()
