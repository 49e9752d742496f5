"""The requests per second that a frontend serves on one core.

    python -m benchmarks.saturation [--json] [--rounds 3] [--streams 128] [--tokens 20]

Clients send the next request as soon as they have the answer to the last one. The frontend has one
core to itself, and all else has the others, so that the frontend is the limit. `busy` is the part
of its core that it used: if that is well below 1, the worker or the clients were the limit. The
systems take turns within each round.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tools.stack import MODEL_NAME

from .load import Client, Load
from .report import build_parser, find_medians, rotate, show
from .systems import BACKEDGE, BACKEDGE_HF, BACKEDGE_SGLANG, RUST, SYSTEMS, Engine, System, running

OURS = (BACKEDGE_HF, BACKEDGE, BACKEDGE_SGLANG)
WARM_UP_REQUESTS = 64


class Sample(msgspec.Struct, frozen=True):
    """One round. busy: the part of its core that the frontend used; worker_busy: of its own."""

    requests_per_s: float
    busy: float
    worker_busy: float


class Row(msgspec.Struct):
    """The medians of a system's rounds, with a stream or without."""

    system: str
    stream: bool
    median: Sample
    part_of_rust: float = 0.0


class Problem(msgspec.Struct):
    """A mistake in some responses of a system."""

    system: str
    text: str


def pin(pid: int, cores: Sequence[int]) -> None:
    """Keep a process and all its threads on these cores."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


class Benchmark:
    """Runs the rounds and keeps their samples."""

    def __init__(
        self, arguments: argparse.Namespace, systems: list[System], client: Client
    ) -> None:
        self._arguments = arguments
        self._systems = systems
        self._client = client
        self._samples: defaultdict[tuple[str, bool], list[Sample]] = defaultdict(list)
        self.problems: list[Problem] = []

    def run(self) -> list[Row]:
        """Warm up, run all rounds, and return the medians."""
        for system in self._systems:
            for stream in (True, False):
                self._client.warm_up(self._load(system, stream=stream, requests=WARM_UP_REQUESTS))
        for number in range(self._arguments.rounds):
            print(f"round {number + 1} of {self._arguments.rounds}", file=sys.stderr)
            for system in rotate(self._systems, number):
                for stream in (True, False):
                    self._measure(system, stream=stream)
        return list(summarize(self._samples))

    def _load(self, system: System, *, stream: bool, requests: int) -> Load:
        streams, cut = self._arguments.streams, self._arguments.tokens
        return Load(system.url, MODEL_NAME, "content", stream, 0, streams, requests, cut)

    def _measure(self, system: System, *, stream: bool) -> None:
        before = system.cpu_times()
        load = self._load(system, stream=stream, requests=self._arguments.requests)
        outcome = self._client.run(load)
        frontend, worker, _ = (
            late.since(early).total_s / outcome.seconds
            for early, late in zip(before, system.cpu_times(), strict=True)
        )
        rate = outcome.requests / outcome.seconds
        self._samples[system.name, stream].append(Sample(rate, frontend, worker))
        self.problems += [Problem(system.name, text) for text in outcome.problems]


def summarize(samples: dict[tuple[str, bool], list[Sample]]) -> Iterator[Row]:
    """Yield the medians."""
    rows = [Row(*names, find_medians(rounds)) for names, rounds in samples.items()]
    rust = {row.stream: row.median.requests_per_s for row in rows if row.system == RUST}
    for row in rows:
        if row.stream in rust:
            row.part_of_rust = row.median.requests_per_s / rust[row.stream]
        yield row


def main() -> None:
    """Run the benchmark and print its report."""
    parser = build_parser(__doc__, 3)
    parser.add_argument("--streams", type=int, default=128, help="clients")
    parser.add_argument("--tokens", type=int, default=20, help="of an answer, a cut transcript")
    parser.add_argument("--requests", type=int, default=2000, help="per system and round")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[RUST, *OURS])
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    with running(Engine("replay", 0, 0.0), arguments.systems) as systems:
        if len(cores) > 1:
            for system in systems:
                pin(system.frontend_pid, cores[:1])
                pin(system.worker_pid, cores[1:])
            pin(os.getpid(), cores[1:])
        with Client() as client:
            benchmark = Benchmark(arguments, systems, client)
            rows = benchmark.run()
    show({"medians of rounds": rows, "problems": benchmark.problems}, as_json=arguments.json)


if __name__ == "__main__":
    main()
