"""The cost of detokenizing a token: ours, vLLM's, and the bare `tokenizers.DecodeStream`.

    python -m benchmarks.detokenizers [--json] [--tokenizers llama gemma] [--steps 1 8]

Measures CPU microseconds per output token of detokenizing alone, one token at a time and
several per step: ours (`feed`, or `feed_all` for a step), vLLM's as its output processor
makes and calls it (`from_new_request`, `update`), vLLM's slow detokenizer, and
`DecodeStream`. The tokens are the transcripts' outputs after a short prompt, cut into
answers of --tokens each. Making a detokenizer is not timed; ours has seen every token
before, as in a worker that has served some requests. Every text is compared with ours, and
a difference is marked.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from transformers import PreTrainedTokenizerFast
from vllm import SamplingParams
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.detokenizer import (
    IncrementalDetokenizer,
    SlowIncrementalDetokenizer,
)

from .command_line import build_parser
from .tokenizer_kinds import KINDS, Kind, texts

OURS, VLLM, SLOW, STREAM = "ours", "vllm", "vllm slow", "DecodeStream"
STEPS = (1, 8)
PROMPT = "Say something about logs, and then go on."
# Tokens in a round of one system, to give the clock enough to measure.
ROUND_TOKENS = 20_000
NS_PER_US = 1e3
# Widths of the table's columns: tokenizer, system, one pair per step size.
NAME_WIDTH, SYSTEM_WIDTH, CELL_WIDTH, RATIO_WIDTH = 24, 14, 16, 8
DIFFERS = "text differs"

# `Feed` takes a step's tokens; `Text` returns an answer's text from the results of `Feed`.
Feed = Callable[[Any], Any]
Text = Callable[[list[Any]], str]


class Cell(msgspec.Struct):
    """One figure. us: per token, the median of the rounds. ratio: our cost divided by this one."""

    step: int
    us: float
    ratio: float
    differs: bool = False


class Row(msgspec.Struct):
    """One system with one tokenizer. detokenizer: the name of its class."""

    tokenizer: str
    system: str
    detokenizer: str
    cells: list[Cell]


class Settings(msgspec.Struct):
    """The settings of a run, from the command line."""

    steps: list[int]
    rounds: int
    tokens: int


class Report(msgspec.Struct):
    """A whole run."""

    settings: Settings
    rows: list[Row]


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
        chosen = IncrementalDetokenizer.from_new_request(fast, answers.request())
        found.append(
            vllm(VLLM, lambda: IncrementalDetokenizer.from_new_request(fast, answers.request()))
        )
        if not isinstance(chosen, SlowIncrementalDetokenizer):
            found.append(vllm(SLOW, lambda: SlowIncrementalDetokenizer(fast, answers.request())))
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


def vllm(name: str, make: Callable[[], Any]) -> System:
    """Return one of vLLM's detokenizers, which keep their whole text."""

    def start(step: int) -> tuple[Feed, Text]:
        detokenizer = make()
        update = detokenizer.update

        def text(_: list[Any]) -> str:
            whole: str = detokenizer.output_text
            return whole

        if step == 1:
            return (lambda token_id: update([token_id], False)), text
        return (lambda token_ids: update(token_ids, False)), text

    return System(name, type(make()).__name__, start)


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


def measure(answers: Answers, settings: Settings) -> list[Row]:
    """Return the figures of one tokenizer; the systems take turns within a round."""
    compared = systems(answers)
    rows = [Row(answers.name, system.name, system.detokenizer, []) for system in compared]
    for step in settings.steps:
        expected = detokenize(compared[0], answers, step)[1]
        us: list[list[float]] = [[] for _ in compared]
        differs = [False for _ in compared]
        for _ in range(settings.rounds):
            for number, system in enumerate(compared):
                figure, found = detokenize(system, answers, step)
                us[number].append(figure)
                differs[number] |= found != expected
        medians = list(map(statistics.median, us))
        for row, median, wrong in zip(rows, medians, differs, strict=True):
            row.cells.append(Cell(step, median, medians[0] / median, wrong))
    return rows


def table(report: Report) -> str:
    """Return the report as text."""
    settings = report.settings
    lines = [
        "CPU microseconds per token by tokens per step, and the ratio of ours to each",
        f"(medians of {settings.rounds} rounds)",
    ]
    steps = "".join(f"{step:>{CELL_WIDTH}}{'ratio':>{RATIO_WIDTH}}" for step in settings.steps)
    lines.append(f"{'tokenizer':{NAME_WIDTH}}{'system':{SYSTEM_WIDTH}}{steps}  detokenizer")
    for row in report.rows:
        cells = "".join(map(cell_text, row.cells))
        names = f"{row.tokenizer:{NAME_WIDTH}}{row.system:{SYSTEM_WIDTH}}"
        lines.append(f"{names}{cells}  {row.detokenizer}")
    different = [
        f"{row.tokenizer}, {row.system}"
        for row in report.rows
        if any(cell.differs for cell in row.cells)
    ]
    end = f"text not equal to ours: {'; '.join(different)}" if different else "all texts are equal"
    return "\n".join([*lines, end])


def cell_text(cell: Cell) -> str:
    """Return a figure and the ratio of ours to it, as text."""
    figure = f"{cell.us:.3f}" if not cell.differs else f"{DIFFERS} {cell.us:.1f}"
    return f"{figure:>{CELL_WIDTH}}{cell.ratio:>{RATIO_WIDTH}.3f}"


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    known = list(KINDS)
    parser = build_parser(__doc__)
    parser.add_argument(
        "--tokenizers",
        nargs="+",
        choices=known,
        default=known,
        metavar="NAME",
        help=", ".join(known),
    )
    parser.add_argument("--steps", nargs="+", type=int, default=list(STEPS), help="tokens per step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=1_000, help="tokens of an answer")
    return parser.parse_args()


def main() -> None:
    """Run the benchmark and print its report."""
    logging.disable()
    arguments = parse_arguments()
    settings = Settings(arguments.steps, arguments.rounds, arguments.tokens)
    chosen = [Answers(name, KINDS[name], settings.tokens) for name in arguments.tokenizers]
    gc.freeze()
    rows = [row for answers in chosen for row in measure(answers, settings)]
    report = Report(settings, rows)
    print(msgspec.json.encode(report).decode() if arguments.json else table(report))


if __name__ == "__main__":
    main()
