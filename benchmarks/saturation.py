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
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tools.stack import MODEL_NAME

from .command_line import build_parser
from .load import Load, Outcome, run
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


class Report(msgspec.Struct):
    """A whole run. problems: what was wrong with responses, by system."""

    settings: dict[str, int]
    rows: list[Row]
    problems: dict[str, dict[str, int]]


def pin(pid: int, cores: Sequence[int]) -> None:
    """Keep a process and all its threads on these cores."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


class Benchmark:
    """Runs the rounds and keeps their samples."""

    def __init__(self, arguments: argparse.Namespace, systems: list[System]) -> None:
        self._arguments = arguments
        self._systems = systems
        self._samples: defaultdict[tuple[str, bool], list[Sample]] = defaultdict(list)
        self._problems: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def run(self) -> Report:
        """Warm up, run all rounds, and return the medians."""
        for system in self._systems:
            for stream in (True, False):
                self._load(system, stream=stream, requests=WARM_UP_REQUESTS)
        for number in range(self._arguments.rounds):
            print(f"round {number + 1} of {self._arguments.rounds}", file=sys.stderr)
            first = number % len(self._systems)
            for system in self._systems[first:] + self._systems[:first]:
                for stream in (True, False):
                    self._measure(system, stream=stream)
        names = ("rounds", "streams", "tokens", "requests")
        settings = {name: getattr(self._arguments, name) for name in names}
        return Report(settings, list(summarize(self._samples)), dict(self._problems))

    def _load(self, system: System, *, stream: bool, requests: int) -> Outcome:
        arguments = self._arguments
        load = Load(
            *(system.url, MODEL_NAME, "content", stream),
            *(arguments.longest, arguments.streams, requests, arguments.tokens),
        )
        return run(load)

    def _measure(self, system: System, *, stream: bool) -> None:
        before = system.cpu_times()
        outcome = self._load(system, stream=stream, requests=self._arguments.requests)
        frontend, worker, _ = (
            late.since(early).total_s / outcome.seconds
            for early, late in zip(before, system.cpu_times(), strict=True)
        )
        rate = outcome.requests / outcome.seconds
        self._samples[system.name, stream].append(Sample(rate, frontend, worker))
        if outcome.problems:
            self._problems[system.name] = outcome.problems


def summarize(samples: dict[tuple[str, bool], list[Sample]]) -> Iterator[Row]:
    """Yield the medians."""
    rows = [
        Row(system, stream, Sample(*map(statistics.median, zip(*map(values, rounds), strict=True))))
        for (system, stream), rounds in samples.items()
    ]
    rust = {row.stream: row.median.requests_per_s for row in rows if row.system == RUST}
    for row in rows:
        if row.stream in rust:
            row.part_of_rust = row.median.requests_per_s / rust[row.stream]
        yield row


def values(sample: Sample) -> tuple[float, ...]:
    """Return the figures of a sample, in their order."""
    return msgspec.structs.astuple(sample)


def table(report: Report) -> str:
    """Return the report as text."""
    lines = [
        f"requests per second, medians ({report.settings})",
        f"{'system':24}{'stream':8}{'requests/s':>11}{'of Rust':>9}{'busy':>7}{'worker':>8}",
    ]
    for row in report.rows:
        median = row.median
        lines.append(
            f"{row.system:24}{str(row.stream).lower():8}{median.requests_per_s:11.0f}"
            f"{row.part_of_rust:9.2f}{median.busy:7.2f}{median.worker_busy:8.2f}"
        )
    for system, problems in report.problems.items():
        lines += [f"problem: {system}: {count} x {text}" for text, count in problems.items()]
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark and print its report."""
    parser = build_parser(__doc__, 3)
    parser.add_argument("--streams", type=int, default=128, help="clients")
    parser.add_argument("--tokens", type=int, default=20, help="of an answer")
    parser.add_argument("--requests", type=int, default=2000, help="per system and round")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[RUST, *OURS])
    arguments = parser.parse_args()
    arguments.longest = 0  # the transcript, cut
    cores = sorted(os.sched_getaffinity(0))
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Engine("replay", 0, 0.0), Path(folder), arguments.systems) as systems,
    ):
        if len(cores) > 1:
            for system in systems:
                pin(system.frontend_pid, cores[:1])
                pin(system.worker_pid, cores[1:])
            pin(os.getpid(), cores[1:])
        report = Benchmark(arguments, systems).run()
    print(msgspec.json.encode(report).decode() if arguments.json else table(report))


if __name__ == "__main__":
    main()
