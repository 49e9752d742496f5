"""The cost of a token in the frontend and in the worker, for each system.

    python -m benchmarks.frontend_cost [--json] [--engine vllm] [--rounds 5] [--tokens 20 100 600]

Measures CPU microseconds per output token in the frontend and in the worker, with
content, reasoning and a long tool call, with and without a stream, short and long. The systems are
Dynamo's frontends in Rust and with vLLM's or SGLang's parsers in Python, and Backedge
with the tokenizer back end of either engine. All systems run side by side and take turns
within each round, so a machine that gets slower does so for all; figures of different
runs do not compare. Dynamo's SGLang frontend shows 20 tokens at a time by default, so it
is measured twice: with the default, and with each token in its own chunk.

The figures include the cost of a request whatever its length (template, tokenization,
routing), so they fall with --tokens; answers of one token show this cost by itself. Shorter
answers are the longest one, cut by max_tokens, and there are more of them. The use of an
idle process is measured first and subtracted: a frontend's few milliseconds per second
would outweigh the tokens of a slow engine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict

import msgspec

from tools.stack import MODEL_NAME

from .answers import KINDS
from .cpu import CpuTime
from .load import Client, Load, Outcome
from .report import build_parser, find_medians, rotate, show
from .systems import SYSTEMS, Engine, System, measure_idle, running

US_PER_S = 1e6
MS_PER_S = 1e3
# Answers of one token, per case and round: enough to stand out from an idle frontend's CPU time.
SHORT_REQUESTS = 32
# How many times as many short answers there are at most.
MAX_TIMES = 8
# After the last response, frontend and worker still close their streams.
SETTLE_S = 0.1
IDLE_S = 5.0


class Case(msgspec.Struct, frozen=True):
    """One row's name. tokens: of an answer; 0 for transcripts as they are."""

    system: str
    kind: str
    stream: bool
    tokens: int


class Sample(msgspec.Struct, frozen=True):
    """One round of one case; `_us` is CPU microseconds per output token.

    request_ms: CPU milliseconds that the frontend takes for an answer of one token.
    render_ms: the part of it in the process that renders the chat template.
    beyond_us: the part of `frontend_us` beyond that, per token after the first.
    worker_us: the worker's main process, or all of a worker beside its engine.
    server_us: the gRPC server of an engine beside its worker.
    engine_us: the child processes of server or worker, if the engine has any. Apart from the
        others, because the model's computation is not post-processing.
    chunks: per 100 tokens.
    """

    frontend_us: float
    request_ms: float
    render_ms: float
    beyond_us: float
    worker_us: float
    server_us: float
    engine_us: float
    chunks: float


class Row(msgspec.Struct):
    """The medians of a case's rounds."""

    case: Case
    median: Sample


class Problem(msgspec.Struct, frozen=True):
    """A mistake in some responses of a case."""

    case: Case
    text: str


class Benchmark:
    """Runs the rounds and keeps their samples."""

    def __init__(
        self, arguments: argparse.Namespace, systems: list[System], client: Client
    ) -> None:
        self._arguments = arguments
        self._systems = systems
        self._client = client
        self._samples: defaultdict[Case, list[Sample]] = defaultdict(list)
        self._idle: dict[str, tuple[CpuTime, ...]] = {}
        self.problems: dict[Problem, None] = {}

    def run(self) -> list[Row]:
        """Warm up, run all rounds, and return the medians."""
        for system in self._systems:
            for kind in self._arguments.kinds:
                for stream in (True, False):
                    case = Case(system.name, kind, stream, 0)
                    self._client.warm_up(self._load(case, system, self._arguments.streams, 1))
        time.sleep(SETTLE_S)
        self._idle = measure_idle(self._systems, IDLE_S)
        for number in range(self._arguments.rounds):
            print(f"round {number + 1} of {self._arguments.rounds}", file=sys.stderr)
            for kind in self._arguments.kinds:
                for stream in (True, False):
                    for tokens in self._arguments.tokens:
                        for system in rotate(self._systems, number):
                            self._measure(Case(system.name, kind, stream, tokens), system)
        return [Row(case, find_medians(samples)) for case, samples in self._samples.items()]

    def _load(self, case: Case, system: System, requests: int, max_tokens: int = 0) -> Load:
        return Load(
            url=system.url,
            model=MODEL_NAME,
            kind=case.kind,
            stream=case.stream,
            tokens=max(self._arguments.tokens),
            streams=self._arguments.streams,
            requests=requests,
            max_tokens=max_tokens,
        )

    def _timed(
        self, case: Case, system: System, requests: int, max_tokens: int = 0
    ) -> tuple[Outcome, list[CpuTime]]:
        """Return the outcome, and the CPU times of the system's processes for it."""
        start, before = time.monotonic(), system.cpu_times()
        outcome = self._client.run(self._load(case, system, requests, max_tokens))
        time.sleep(SETTLE_S)
        used = system.used_since(before, self._idle[system.name], time.monotonic() - start)
        self.problems |= {
            Problem(case, f"{text}: {count}"): None for text, count in outcome.problems.items()
        }
        return outcome, used

    def _measure(self, case: Case, system: System) -> None:
        cut, times = cut_answer(case.tokens, max(self._arguments.tokens))
        outcome, used = self._timed(case, system, times * self._arguments.requests, cut)
        first, (first_token, *_) = self._timed(case, system, SHORT_REQUESTS, max_tokens=1)
        if not (outcome.tokens and first.tokens):
            return  # no tokens to divide by; the problems say why
        frontend, worker, engine = used
        each = US_PER_S / outcome.tokens
        request_s = first_token.total_s / first.requests
        beyond_s = frontend.total_s - request_s * outcome.requests
        self._samples[case].append(
            Sample(
                frontend_us=frontend.total_s * each,
                request_ms=request_s * MS_PER_S,
                render_ms=first_token.children_s / first.requests * MS_PER_S,
                beyond_us=beyond_s * US_PER_S / (outcome.tokens - outcome.requests),
                worker_us=worker.total_s * each,
                server_us=engine.own_s * each,
                engine_us=engine.children_s * each,
                chunks=100 * outcome.chunks / outcome.tokens,
            )
        )


def cut_answer(tokens: int, longest: int) -> tuple[int, int]:
    """Return the max_tokens of an answer, 0 for all of the longest, and how many times as many."""
    return (0, 1) if tokens >= longest else (tokens, min(MAX_TIMES, longest // tokens))


def parse_arguments() -> argparse.Namespace:
    """Return the command line; the real engine answers with the transcripts as they are."""
    parser = build_parser(__doc__, 5)
    parser.add_argument("--engine", choices=("replay", "vllm"), default="replay")
    parser.add_argument("--streams", type=int, default=64, help="concurrent requests")
    parser.add_argument("--requests", type=int, help="per case and round; default: one per stream")
    parser.add_argument(
        "--tokens", type=int, nargs="+", default=[20, 100, 600], help="about, for --engine replay"
    )
    parser.add_argument(
        "--pace", type=float, default=100.0, help="tokens per second of a stream; 0: full speed"
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    compared = [name for name, recipe in SYSTEMS.items() if not recipe.beside]
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=compared)
    arguments = parser.parse_args()
    arguments.requests = arguments.requests or arguments.streams
    if arguments.engine == "vllm":
        arguments.tokens, arguments.pace = [0], 0.0
    return arguments


def main() -> None:
    """Run the benchmark and print its report."""
    arguments = parse_arguments()
    engine = Engine(arguments.engine, max(arguments.tokens), arguments.pace)
    with running(engine, arguments.systems) as systems, Client() as client:
        benchmark = Benchmark(arguments, systems, client)
        rows = benchmark.run()
    show({"medians of rounds": rows, "problems": list(benchmark.problems)}, as_json=arguments.json)


if __name__ == "__main__":
    main()
