"""What the soak reports: results, errors by cause, memory and file handles over time."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.soak.faults import Fault
from tests.soak.load import HELD_IN_RUST, Outcome, Result
from tools.stack import Process

# Of the median of the middle third, how much more the last third may take.
MAX_GROWTH = 0.05
# What a process may take more without counting as growth, in MB: the allocator's steps.
SPARE_MB = 2.0
MAX_SHOWN = 10
# How long after a fault the gaps in streams do not count: the pool notices what stands still.
SETTLED_S = 5.0


@dataclass(frozen=True)
class Sample:
    """One reading of a process. at: seconds since the start."""

    at: float
    megabytes: float
    files: int


@dataclass
class Series:
    """The readings of one process that lives through the whole run."""

    name: str
    process: Process
    samples: list[Sample] = field(default_factory=list)

    def read(self, began: float) -> None:
        """Take a reading."""
        proc = Path(f"/proc/{self.process.popen.pid}")
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        megabytes = int(status["VmRSS"].split()[0]) / 1024
        files = len(list((proc / "fd").iterdir()))
        self.samples.append(Sample(time.monotonic() - began, megabytes, files))

    @property
    def thirds(self) -> list[list[Sample]]:
        """The readings of each third of the run."""
        third = max(1, len(self.samples) // 3)
        return [self.samples[start : start + third] for start in (0, third, 2 * third)]

    @property
    def growth(self) -> float:
        """How much more memory the last third takes than the middle one, as a fraction."""
        _, middle, last = (
            statistics.median([sample.megabytes for sample in part]) if part else 0.0
            for part in self.thirds
        )
        return max(0.0, last - middle - SPARE_MB) / middle if middle else 0.0

    def row(self) -> str:
        """Return the row of a table."""
        parts = [part or self.samples[-1:] for part in self.thirds]
        memory = " | ".join(f"{max(sample.megabytes for sample in part):.0f}" for part in parts)
        files = " | ".join(f"{max(sample.files for sample in part)}" for part in parts)
        return f"| {self.name} | {memory} | {files} | {100 * self.growth:.1f} % |"


@dataclass
class Report:
    """Counts outcomes. faults: those done so far."""

    faults: Sequence[Fault]
    results: Counter[Result] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    unexplained: list[Outcome] = field(default_factory=list)
    wrong: list[Outcome] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count a request."""
        if outcome.result is Result.WRONG and self._find_cause(outcome, {HELD_IN_RUST}):
            outcome = replace(outcome, result=Result.FAILED, note="lost text")
        self.results[outcome.result] += 1
        if outcome.result is Result.WRONG:
            self.wrong.append(outcome)
        elif outcome.result is Result.FAILED:
            self._explain(outcome)
        span = outcome.began, outcome.ended, SETTLED_S
        if not any(fault.is_beside(*span) for fault in self.faults):
            self.gaps.append(outcome.gap_s)

    def _find_cause(self, outcome: Outcome, among: Collection[str]) -> Fault | None:
        uses = outcome.uses.intersection(among)
        causes = (
            fault
            for fault in reversed(self.faults)
            if fault.explains(uses, outcome.began, outcome.ended)
        )
        return next(causes, None)

    def _explain(self, outcome: Outcome) -> None:
        cause = self._find_cause(outcome, outcome.uses)
        if cause is None:
            self.unexplained.append(outcome)
        else:
            self.explained[f"{cause.kind}: {outcome.note.partition(':')[0]}"] += 1

    def passed(self, series: Iterable[Series]) -> bool:
        """Whether nothing was wrong or unexplained, and memory flat."""
        flat = all(each.growth <= MAX_GROWTH for each in series)
        return flat and not self.wrong and not self.unexplained

    def text(self, series: Iterable[Series]) -> str:
        """Return the whole report."""
        lines = [f"{self.results[result]:7} {result.value}" for result in Result]
        lines += ["", f"{len(self.faults)} faults:"]
        lines += [
            f"{count:7} {kind}"
            for kind, count in sorted(Counter(fault.kind for fault in self.faults).items())
        ]
        lines += ["", "errors that a fault explains:"]
        lines += [f"{count:7} {cause}" for cause, count in self.explained.most_common()] or ["none"]
        for title, outcomes in (("unexplained", self.unexplained), ("wrong", self.wrong)):
            lines += ["", f"{len(outcomes)} {title}"]
            lines += [
                f"  {outcome.target.name} {outcome.target.model}: {outcome.note[:400]}"
                for outcome in outcomes[:MAX_SHOWN]
            ]
        lines += [
            "",
            "| process | MB, by third | | | files, by third | | | growth |",
            "|---|---|---|---|---|---|---|---|",
            *(each.row() for each in series if each.samples),
            "",
            f"longest gap in a stream without a fault beside it: {max(self.gaps, default=0):.2f} s",
        ]
        return "\n".join(lines)
