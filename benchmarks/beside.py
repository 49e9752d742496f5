"""Two commits in one run: processes that measure on request, and the ratios of paired rounds."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from .answers import ROOT

T = TypeVar("T")


def python_path(checkout: Path | None = None) -> str:
    """Return a PYTHONPATH that has the benchmarks and the examples of a checkout."""
    return os.pathsep.join(filter(None, (str(checkout or ROOT), os.environ.get("PYTHONPATH"))))


class Child:
    """A process that answers each line of JSON with one; its CPU time is its own.

    checkout: another one of Backedge, whose `.venv` runs the command; None for this one.
    """

    def __init__(self, *command: str, checkout: Path | None = None) -> None:
        python = sys.executable if checkout is None else str(checkout / ".venv/bin/python")
        self._popen = subprocess.Popen(
            [python, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": python_path(checkout)},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._popen.kill()
        self._popen.communicate()

    def ask(self, plan: msgspec.Struct) -> None:
        """Send a plan; `answer` waits for its outcome."""
        assert self._popen.stdin is not None  # noqa: S101 - narrows the type
        self._popen.stdin.write(msgspec.json.encode(plan) + b"\n")
        self._popen.stdin.flush()

    def answer(self, outcome: type[T]) -> T:
        """Return the outcome. Raises RuntimeError if the process has ended."""
        assert self._popen.stdout is not None  # noqa: S101 - narrows the type
        line = self._popen.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._popen.args!r} has ended; its error is above")
        return msgspec.json.decode(line, type=outcome)


def serve(answer: Callable[[T], msgspec.Struct], plan: type[T]) -> None:
    """Be the process of a `Child`: answer each plan on stdin."""
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(msgspec.json.encode(answer(msgspec.json.decode(line, type=plan))))
        sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()


class Ratio(msgspec.Struct):
    """The first one's figure divided by the second one's, round by round: median and range."""

    case: str
    figure: str
    median: float
    lowest: float
    highest: float


def compare(case: str, figure: str, ours: Sequence[float], others: Sequence[float]) -> Ratio:
    """Return the ratio of figures of the same rounds, all above 0."""
    ratios = [our / other for our, other in zip(ours, others, strict=True)]
    return Ratio(case, figure, statistics.median(ratios), min(ratios), max(ratios))


def ratio_table(ratios: Sequence[Ratio]) -> list[str]:
    """Return the ratios as lines of text, then the median of each figure over all cases."""
    lines = ["", "the first / the second, medians of paired rounds (range)"]
    by_figure: dict[str, list[float]] = {}
    for ratio in ratios:
        by_figure.setdefault(ratio.figure, []).append(ratio.median)
        span = f"({ratio.lowest:.3f}-{ratio.highest:.3f})"
        lines.append(f"{ratio.case:32}{ratio.figure:14}{ratio.median:>8.3f}{span:>16}")
    return lines + [
        f"{'all cases':32}{figure:14}{statistics.median(medians):>8.3f}"
        for figure, medians in by_figure.items()
    ]
