"""The cost of detokenizing a token: ours, vLLM's, and the bare `tokenizers.DecodeStream`.

    python -m benchmarks.detokenizers [--json] [--tokenizers llama gemma] [--steps 1 8]

Measures CPU microseconds per output token of detokenizing alone, one token at a time and
several per step: ours (`feed`, or `feed_all` for a step), vLLM's as its output processor
makes and calls it (`from_new_request`, `update`), and `DecodeStream`. The tokens are the
transcripts' outputs after a short prompt, cut into answers of --tokens each. Making a detokenizer
is not timed; ours has seen every token before, as in a worker that has served some requests.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from transformers import PreTrainedTokenizerFast
from vllm import SamplingParams
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.detokenizer import IncrementalDetokenizer

from .report import build_parser, show
from .tokenizer_kinds import KINDS, Kind, texts

OURS, VLLM, STREAM = "ours", "vllm", "DecodeStream"
STEPS = (1, 8)
PROMPT = "Say something about logs, and then go on."
# Tokens in a round of one system, to give the clock enough to measure.
ROUND_TOKENS = 20_000
NS_PER_US = 1e3

# `Feed` takes a step's tokens; `Text` returns an answer's text from the results of `Feed`.
Feed = Callable[[Any], Any]
Text = Callable[[list[Any]], str]


class Row(msgspec.Struct):
    """One system with one tokenizer and step size.

    detokenizer: the name of its class. us: per token, the median of the rounds. ratio: our cost
    divided by this one. differs: the text is not equal to ours.
    """

    tokenizer: str
    system: str
    detokenizer: str
    step: int
    us: float
    ratio: float
    differs: bool


class Answers:
    """One tokenizer, and the tokens of the answers that are detokenized with it."""

    def __init__(self, name: str, kind: Kind, tokens: int) -> None:
        self.name = name
        self.tokenizer = kind.tokenizer()
        self.prompt_token_ids = kind.encode(PROMPT)
        token_ids = list(itertools.chain.from_iterable(map(kind.encode, texts())))
        repeated = itertools.islice(
            itertools.cycle(token_ids), max(1, ROUND_TOKENS // tokens) * tokens
        )
        self.answers = [list(answer) for answer in zip(*[repeated] * tokens, strict=False)]
        self.ours = detokenizers(self.tokenizer)

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(map(len, self.answers))

    def request(self) -> EngineCoreRequest:
        """Return a request for vLLM to make a detokenizer from."""
        return EngineCoreRequest(
            request_id="0",
            prompt_token_ids=self.prompt_token_ids,
            mm_features=None,
            sampling_params=SamplingParams(skip_special_tokens=True),
            pooling_params=None,
            arrival_time=0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
        )


class System:
    """One detokenizer for one tokenizer's answers.

    start: begins an answer that is fed in steps of that many tokens.
    """

    def __init__(
        self, name: str, detokenizer: str, start: Callable[[int], tuple[Feed, Text]]
    ) -> None:
        self.name = name
        self.detokenizer = detokenizer
        self.start = start


def systems(answers: Answers) -> list[System]:
    """Return the systems that can detokenize these answers; ours is the first."""
    tokenizer = answers.tokenizer
    fast = transformers_tokenizer(tokenizer) if isinstance(tokenizer, Tokenizer) else tokenizer
    found = [ours(answers)]
    if hasattr(fast, "convert_ids_to_tokens"):
        found.append(vllm(lambda: IncrementalDetokenizer.from_new_request(fast, answers.request())))
    if isinstance(tokenizer, Tokenizer):
        found.append(stream(tokenizer, answers))
    return found


def transformers_tokenizer(tokenizer: Tokenizer) -> Any:
    """Return the tokenizer in the form in which vLLM gets it."""
    special = [
        token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special
    ]
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, additional_special_tokens=special)


def ours(answers: Answers) -> System:
    """Return our detokenizer."""

    def start(step: int) -> tuple[Feed, Text]:
        detokenizer = answers.ours(DetokenizerOptions(), answers.prompt_token_ids)
        return (detokenizer.feed if step == 1 else detokenizer.feed_all), "".join

    return System(OURS, type(answers.ours).__name__, start)


def vllm(make: Callable[[], Any]) -> System:
    """Return vLLM's detokenizer, which keeps its whole text."""

    def start(step: int) -> tuple[Feed, Text]:
        detokenizer = make()
        update = detokenizer.update

        def text(_: list[Any]) -> str:
            whole: str = detokenizer.output_text
            return whole

        if step == 1:
            return (lambda token_id: update([token_id], False)), text
        return (lambda token_ids: update(token_ids, False)), text

    return System(VLLM, type(make()).__name__, start)


def stream(tokenizer: Tokenizer, answers: Answers) -> System:
    """Return the bare `DecodeStream`, one call per token."""

    def start(step: int) -> tuple[Feed, Text]:
        decode = DecodeStream(ids=answers.prompt_token_ids, skip_special_tokens=True).step

        def feed_all(token_ids: Sequence[int]) -> str:
            return "".join([decode(tokenizer, token_id) or "" for token_id in token_ids])

        if step == 1:
            return (lambda token_id: decode(tokenizer, token_id) or ""), "".join
        return feed_all, "".join

    return System(STREAM, DecodeStream.__name__, start)


def detokenize(system: System, answers: Answers, step: int) -> tuple[float, list[str]]:
    """Return the time per token in us, and the answers' texts."""
    ns, found = 0, []
    gc.collect()
    gc.disable()
    try:
        for answer in answers.answers:
            pieces = (
                answer
                if step == 1
                else [answer[at : at + step] for at in range(0, len(answer), step)]
            )
            feed, text = system.start(step)
            started = time.process_time_ns()
            results = [feed(piece) for piece in pieces]
            ns += time.process_time_ns() - started
            found.append(text(results))
    finally:
        gc.enable()
    return ns / NS_PER_US / answers.tokens, found


def measure(answers: Answers, steps: Sequence[int], rounds: int) -> Iterator[Row]:
    """Yield the figures of one tokenizer; the systems take turns within a round."""
    compared = systems(answers)
    for step in steps:
        expected = detokenize(compared[0], answers, step)[1]
        us: list[list[float]] = [[] for _ in compared]
        differs = [False for _ in compared]
        for _ in range(rounds):
            for number, system in enumerate(compared):
                figure, found = detokenize(system, answers, step)
                us[number].append(figure)
                differs[number] |= found != expected
        medians = list(map(statistics.median, us))
        for system, median, wrong in zip(compared, medians, differs, strict=True):
            names = answers.name, system.name, system.detokenizer
            yield Row(*names, step, median, medians[0] / median, wrong)


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    known = list(KINDS)
    parser = build_parser(__doc__, 5)
    names = ", ".join(known)
    parser.add_argument(
        "--tokenizers", nargs="+", choices=known, default=known, metavar="NAME", help=names
    )
    parser.add_argument("--steps", nargs="+", type=int, default=list(STEPS), help="tokens per step")
    parser.add_argument("--tokens", type=int, default=1_000, help="tokens of an answer")
    return parser.parse_args()


def main() -> None:
    """Run the benchmark and print its report."""
    logging.disable()
    arguments = parse_arguments()
    chosen = [Answers(name, KINDS[name], arguments.tokens) for name in arguments.tokenizers]
    gc.freeze()
    rows = [
        row for answers in chosen for row in measure(answers, arguments.steps, arguments.rounds)
    ]
    show({"us per token, by tokens per step": rows}, as_json=arguments.json)


if __name__ == "__main__":
    main()
