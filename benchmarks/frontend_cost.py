"""The cost of a token in the frontend and in the worker, for each system.

    python -m benchmarks.frontend_cost [--json] [--engine vllm] [--rounds 5] [--tokens 20 100 600]

Measures CPU microseconds per output token in the frontend and in the worker, with
content, reasoning and a long tool call, with and without a stream, short and long. The systems are
Dynamo's frontends in Rust and with vLLM's or SGLang's parsers in Python, and Backedge
with the tokenizer back end of either engine. All systems run side by side and take turns
within each round, so a machine that gets slower does so for all; figures of different
runs do not compare. Dynamo's SGLang frontend shows 20 tokens at a time by default, so it
is measured twice: with the default, and with each token in its own chunk, as vLLM's
frontend sends them.

The figures include the cost of a request whatever its length (template, tokenization,
routing), so they fall with --tokens; answers of one token show this cost by itself. Shorter
answers are the longest one, cut by max_tokens, and there are more of them. The use of an
idle process is measured first and subtracted: a frontend's few milliseconds per second
would outweigh the tokens of a slow engine.

    python -m benchmarks.frontend_cost --beside ../old

With --beside, Backedge's frontends and workers of two checkouts are measured: by default 6 rounds
of 300 tokens, in some two minutes. Two systems get the same load at the same time, and beside the
medians the table has the first one's cost divided by the second one's, the median of all rounds:

    python -m benchmarks.frontend_cost --systems "backedge, turns" backedge --tokens 300
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from tools.stack import MODEL_NAME

from . import load
from .answers import KINDS
from .beside import Ratio, compare, ratio_table
from .command_line import build_parser
from .cpu import CpuTime
from .load import Load, Outcome
from .systems import BACKEDGE, SYSTEMS, Engine, System, running

US_PER_S = 1e6
MS_PER_S = 1e3
# Answers of one token, per case and round: enough to stand out from an idle frontend's CPU time.
SHORT_REQUESTS = 32
# How many times as many short answers there are at most.
MAX_TIMES = 8
# After the last response, frontend and worker still close their streams.
SETTLE_S = 0.1
IDLE_S = 5.0
WARM_UP_TIMEOUT_S = 120.0
# The columns of the table, with their alignment.
WIDTHS = ("<22", "<11", "<7", ">7", ">9", ">15", ">12", ">9", ">9", ">9", ">9", ">12")
PAIR = 2
# The figures that two systems are compared by.
COMPARED = ("frontend_us", "request_ms", "worker_us")


class Case(msgspec.Struct, frozen=True):
    """One row's name. tokens: of an answer; 0 for transcripts as they are."""

    system: str
    kind: str
    stream: bool
    tokens: int

    def __str__(self) -> str:
        return f"{self.system}, {self.load}"

    @property
    def load(self) -> str:
        """The name of what was sent."""
        return f"{self.kind}, stream {str(self.stream).lower()}, {self.tokens}"


class Sample(msgspec.Struct, frozen=True):
    """One round of one case; `_us` is CPU microseconds per output token.

    request_ms: CPU milliseconds that the frontend takes for an answer of one token.
    beyond_us: the part of `frontend_us` beyond that, per token after the first.
    worker_us: the worker's main process, or all of a worker beside its engine.
    server_us: the gRPC server of an engine beside its worker.
    engine_us: the child processes of server or worker, if the engine has any. Apart from the
        others, because the model's computation is not post-processing.
    """

    frontend_us: float
    request_ms: float
    beyond_us: float
    worker_us: float
    server_us: float
    engine_us: float
    chunks_per_100_tokens: float


class Row(msgspec.Struct):
    """The medians of a case's rounds, field by field; `lowest` and `highest` are the frontend's."""

    case: Case
    median: Sample
    lowest: float
    highest: float
    rounds: int


class Report(msgspec.Struct):
    """A whole run. problems: what was wrong with responses, by case. ratios: of two systems."""

    settings: dict[str, str | int | float | list[int]]
    rows: list[Row]
    problems: dict[str, dict[str, int]]
    ratios: list[Ratio]


class Benchmark:
    """Runs the rounds and keeps their samples.

    Systems take turns, but if they are two, both get their load at the same time.
    """

    def __init__(self, arguments: argparse.Namespace, systems: list[System]) -> None:
        self._arguments = arguments
        self._systems = systems
        self._groups = [systems] if len(systems) == PAIR else [[system] for system in systems]
        self._clients = {system.name: load.start() for system in systems}
        self._samples: defaultdict[Case, list[Sample]] = defaultdict(list)
        self._idle: dict[str, tuple[CpuTime, ...]] = {}
        self._problems: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def run(self) -> Report:
        """Warm up, run all rounds, and return the medians."""
        with ExitStack() as stack:
            for client in self._clients.values():
                stack.enter_context(client)
            for group in self._groups:
                self._warm_up(group)
            self._measure_idle()
            for number in range(self._arguments.rounds):
                print(f"round {number + 1} of {self._arguments.rounds}", file=sys.stderr)
                for case, group in self._turns(number):
                    self._measure(case, group)
        rows = [summarize(case, samples) for case, samples in self._samples.items()]
        names = ("engine", "tokens", "pace", "streams", "requests", "rounds")
        settings = {name: getattr(self._arguments, name) for name in names}
        return Report(settings, rows, dict(self._problems), list(self._compare()))

    def _compare(self) -> Iterator[Ratio]:
        if len(self._systems) == PAIR:
            yield from compare_systems(self._samples, *(system.name for system in self._systems))

    def _turns(self, number: int) -> Iterator[tuple[Case, list[System]]]:
        """Yield the cases of a round without their systems; each group goes first in turn."""
        first = number % len(self._groups)
        order = self._groups[first:] + self._groups[:first]
        for kind in self._arguments.kinds:
            for stream in (True, False):
                for tokens in self._arguments.tokens:
                    for group in order:
                        yield Case("", kind, stream, tokens), group

    def _load(
        self, case: Case, systems: Sequence[System], requests: int, max_tokens: int = 0
    ) -> list[Outcome]:
        """Send the same requests to each of the systems at once."""
        longest, streams = max(self._arguments.tokens), self._arguments.streams
        for system in systems:
            self._clients[system.name].ask(
                Load(
                    url=system.url,
                    model=MODEL_NAME,
                    kind=case.kind,
                    stream=case.stream,
                    tokens=longest,
                    streams=streams,
                    requests=requests,
                    max_tokens=max_tokens,
                    syntax=system.syntax,
                )
            )
        return [self._clients[system.name].answer(Outcome) for system in systems]

    def _timed(
        self, case: Case, systems: Sequence[System], requests: int, max_tokens: int = 0
    ) -> list[tuple[Outcome, CpuTime, CpuTime, CpuTime]]:
        """Return each system's outcome, and the CPU times of its processes for it."""
        start, before = time.monotonic(), [system.cpu_times() for system in systems]
        outcomes = self._load(case, systems, requests, max_tokens)
        time.sleep(SETTLE_S)
        after, elapsed_s = [system.cpu_times() for system in systems], time.monotonic() - start
        timed = []
        for system, outcome, early, late in zip(systems, outcomes, before, after, strict=True):
            frontend, worker, engine = (
                end.since(begin).less_idle(idle, elapsed_s)
                for begin, end, idle in zip(early, late, self._idle[system.name], strict=True)
            )
            timed.append((outcome, frontend, worker, engine))
            for problem, count in outcome.problems.items():
                known = self._problems[str(msgspec.structs.replace(case, system=system.name))]
                known[problem] = known.get(problem, 0) + count
        return timed

    def _warm_up(self, systems: list[System]) -> None:
        """Send every kind of request on every stream, until one of each kind succeeds."""
        deadline = time.monotonic() + WARM_UP_TIMEOUT_S
        for kind in self._arguments.kinds:
            for stream in (True, False):
                case = Case("", kind, stream, max(self._arguments.tokens))
                while (
                    not all(
                        outcome.tokens
                        for outcome in self._load(case, systems, self._arguments.streams, 1)
                    )
                    and time.monotonic() < deadline
                ):
                    time.sleep(1)

    def _measure_idle(self) -> None:
        """Record what each process uses per second without a request."""
        time.sleep(SETTLE_S)
        before = [system.cpu_times() for system in self._systems]
        time.sleep(IDLE_S)
        for system, early in zip(self._systems, before, strict=True):
            self._idle[system.name] = tuple(
                late.since(then).per_second(IDLE_S)
                for then, late in zip(early, system.cpu_times(), strict=True)
            )

    def _measure(self, case: Case, systems: list[System]) -> None:
        cut, times = cut_answer(case.tokens, max(self._arguments.tokens))
        long = self._timed(case, systems, times * self._arguments.requests, cut)
        short = self._timed(case, systems, self._arguments.short, max_tokens=1)
        if not all(outcome.tokens for outcome, *_ in (*long, *short)):
            return  # no tokens to divide by; the problems say why
        for system, (outcome, frontend, worker, engine), (first, first_token, *_) in zip(
            systems, long, short, strict=True
        ):
            each = US_PER_S / outcome.tokens
            request_s = first_token.total_s / first.requests
            beyond_s = frontend.total_s - request_s * outcome.requests
            self._samples[msgspec.structs.replace(case, system=system.name)].append(
                Sample(
                    frontend_us=frontend.total_s * each,
                    request_ms=request_s * MS_PER_S,
                    beyond_us=beyond_s * US_PER_S / (outcome.tokens - outcome.requests),
                    worker_us=worker.total_s * each,
                    server_us=engine.own_s * each,
                    engine_us=engine.children_s * each,
                    chunks_per_100_tokens=100 * outcome.chunks / outcome.tokens,
                )
            )


def compare_systems(samples: Mapping[Case, list[Sample]], ours: str, other: str) -> Iterator[Ratio]:
    """Yield the ratios of the figures of `ours` over those of `other`."""
    for case, sides in samples.items():
        others = samples.get(msgspec.structs.replace(case, system=other))
        if case.system == ours and others is not None:
            for name in COMPARED:
                figures = ([getattr(sample, name) for sample in side] for side in (sides, others))
                yield compare(case.load, name, *figures)


def cut_answer(tokens: int, longest: int) -> tuple[int, int]:
    """Return the max_tokens of an answer, 0 for all of the longest, and how many times as many."""
    return (0, 1) if tokens >= longest else (tokens, min(MAX_TIMES, longest // tokens))


def summarize(case: Case, samples: list[Sample]) -> Row:
    """Return the medians of `samples`."""
    frontend = [sample.frontend_us for sample in samples]
    fields = [
        statistics.median(getattr(sample, name) for sample in samples)
        for name in Sample.__struct_fields__
    ]
    return Row(case, Sample(*fields), min(frontend), max(frontend), len(samples))


def table(report: Report) -> str:
    """Return the report as text."""
    settings = ", ".join(f"{name} {value}" for name, value in report.settings.items())
    lines = [f"CPU microseconds per output token, medians ({settings})"]
    lines += [
        "".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS, strict=True))
        for cells in _cells(report)
    ]
    for case_label, problems in report.problems.items():
        lines += [
            f"problem: {case_label}: {count} x {problem}" for problem, count in problems.items()
        ]
    return "\n".join([*lines, *(ratio_table(report.ratios) if report.ratios else ())])


def _cells(report: Report) -> Iterator[tuple[str, ...]]:
    yield (
        "system",
        "kind",
        "stream",
        "tokens",
        "frontend",
        "(range)",
        "ms/request",
        "beyond",
        "worker",
        "server",
        "engine",
        "chunks/100",
    )
    for row in report.rows:
        case, median = row.case, row.median
        yield (
            case.system,
            case.kind,
            str(case.stream).lower(),
            str(case.tokens),
            f"{median.frontend_us:.2f}",
            f"({row.lowest:.1f}-{row.highest:.1f})",
            f"{median.request_ms:.2f}",
            f"{median.beyond_us:.2f}",
            f"{median.worker_us:.1f}",
            f"{median.server_us:.1f}",
            f"{median.engine_us:.1f}",
            f"{median.chunks_per_100_tokens:.2f}",
        )


def parse_arguments() -> argparse.Namespace:
    """Return the command line; the real engine answers with the transcripts as they are."""
    parser = build_parser(__doc__)
    parser.add_argument("--engine", choices=("replay", "vllm"), default="replay")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=64, help="concurrent requests")
    parser.add_argument(
        "--requests", type=int, default=None, help="per case and round; default: one per stream"
    )
    parser.add_argument(
        "--tokens",
        type=int,
        nargs="+",
        default=[20, 100, 600],
        help="approximate tokens per answer, for --engine replay",
    )
    parser.add_argument(
        "--pace",
        type=float,
        default=100.0,
        help="tokens per second and stream of the replay; 0: full speed",
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    compared = [name for name, recipe in SYSTEMS.items() if not recipe.beside]
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=compared)
    parser.add_argument(
        "--beside",
        type=Path,
        help="another checkout of Backedge with its .venv, to compare two commits in one run",
    )
    parser.set_defaults(short=SHORT_REQUESTS)
    if parser.parse_known_args()[0].beside is not None:
        # A difference of 3 % shows only among more requests.
        parser.set_defaults(rounds=6, streams=32, tokens=[300], pace=200.0, systems=[BACKEDGE])
        parser.set_defaults(short=4 * SHORT_REQUESTS)
    arguments = parser.parse_args()
    arguments.requests = arguments.requests or arguments.streams
    if arguments.engine == "vllm":
        arguments.tokens, arguments.pace = [0], 0.0
    return arguments


def main() -> None:
    """Run the benchmark and print its report."""
    arguments = parse_arguments()
    engine = Engine(arguments.engine, max(arguments.tokens), arguments.pace)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(engine, Path(folder), arguments.systems, arguments.beside) as systems,
    ):
        report = Benchmark(arguments, systems).run()
    print(msgspec.json.encode(report).decode() if arguments.json else table(report))


if __name__ == "__main__":
    main()
