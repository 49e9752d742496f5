"""The replay worker with answers of any length, post-processed as a vLLM worker does: what the benchmarks measure.

The runtime, the model card, the endpoint and the post-processing are the real
ones; only the engine is left out, whose matrix multiplications on a CPU would
hide everything that is measured. Started by `benchmarks.systems`; takes its
discovery and request plane from Dynamo's environment variables.
"""

from __future__ import annotations

import argparse
import importlib.metadata
from typing import get_args

import uvloop
from backedge.parsers.base import ParserNames
from backedge.parsers.parser_lookup import Kind
from backedge.postprocess.chunk_scheduler import MERGE_DELAYS
from backedge.postprocess.engine_output import JsonDict
from backedge.postprocess.messages import WorkerCard
from backedge.worker.backend import InlineBackend
from backedge.worker.handler import WorkerPostprocessor
from backedge.worker.metrics import WorkerMetrics
from backedge.worker.replay.worker import (
    Card,
    ReplayEngine,
    ReplayWorker,
    add_runtime_flags,
    serve,
)
from dynamo.runtime.logging import configure_dynamo_logging

from tools.stack import MODEL_NAME

from .answers import KINDS, TINY_MODEL, answer, tokenizer

# Behind the longest answer: room for the prompt, which stock frontends count, too.
PROMPT_TOKENS = 1024


class Answers:
    """The known answer to each known question.

    tokens: see `answers.answer`. always: the kind of the answer to every request,
    whatever it asks; None to look into the prompt.
    """

    def __init__(self, tokens: int, always: str | None = None) -> None:
        self._tokenizer = tokenizer()
        self._always = None if always is None else answer(always, tokens).token_ids
        answers = [answer(kind, tokens) for kind in KINDS]
        self._answers = {known.question: known.token_ids for known in answers}

    @property
    def longest(self) -> int:
        """Tokens of the longest answer."""
        return max(map(len, self._answers.values()))

    def find(self, request: JsonDict) -> list[int]:
        """Return the answer's tokens. Raises LookupError for a question that no transcript asks."""
        if self._always is not None:
            return self._always
        prompt = self._tokenizer.decode(request["token_ids"])
        for question, token_ids in self._answers.items():
            if question in prompt:
                return token_ids
        raise LookupError(
            f"no transcript asks this: {prompt[-200:]!r}; known: {list(self._answers)}"
        )


def postprocessor(arguments: argparse.Namespace, metrics: WorkerMetrics) -> WorkerPostprocessor:
    """Return the post-processing as `backedge.worker.adapters.vllm` builds it: with linear parsers where there are any."""
    from backedge.tokenization.detokenizer import detokenizers
    from backedge.worker.adapters.vllm import build_parsers
    from vllm.tokenizers import get_tokenizer

    vllm_tokenizer = get_tokenizer(str(TINY_MODEL))
    names = ParserNames(arguments.tool_call_parser, arguments.reasoning_parser)
    parsers = build_parsers(arguments.parsers, names, vllm_tokenizer)
    bounds = MERGE_DELAYS[arguments.latency]
    core = InlineBackend(detokenizers(vllm_tokenizer), parsers, bounds, "degrade", metrics.report)
    return WorkerPostprocessor(core, metrics)


def worker_card(arguments: argparse.Namespace) -> WorkerCard:
    """Return what a vLLM worker says of itself."""
    return WorkerCard(
        engine="vllm",
        engine_version=importlib.metadata.version("vllm"),
        tool_call_parser=arguments.tool_call_parser,
        reasoning_parser=arguments.reasoning_parser,
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
    parser.add_argument("--name", default=MODEL_NAME, help="of the model")
    parser.add_argument(
        "--prompt-tokens", type=int, default=PROMPT_TOKENS, help="for which the model has room"
    )
    parser.add_argument("--parsers", choices=get_args(Kind), default="auto")
    parser.add_argument("--latency", choices=list(MERGE_DELAYS), default="balanced")
    parser.add_argument("--vllm-processing", action="store_true")
    parser.add_argument("--tool-call-parser")
    parser.add_argument("--reasoning-parser")
    add_runtime_flags(parser)
    configure_dynamo_logging()
    arguments = parser.parse_args()
    metrics = WorkerMetrics()
    answers = Answers(arguments.tokens, arguments.always)
    processes = arguments.vllm_processing
    worker = ReplayWorker(
        ReplayEngine(answers.find, tokens_per_second=arguments.pace),
        postprocessor(arguments, metrics) if processes else None,
    )
    card = Card(
        folder=TINY_MODEL,
        name=arguments.name,
        context_length=answers.longest + arguments.prompt_tokens,
        worker_card=worker_card(arguments) if processes else None,
        dyn_tool_call_parser=arguments.dyn_tool_call_parser,
        dyn_reasoning_parser=arguments.dyn_reasoning_parser,
    )
    uvloop.run(serve(worker, card, arguments, metrics))


if __name__ == "__main__":
    main()
