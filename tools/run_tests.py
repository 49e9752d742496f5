"""Runs the tests in parts, and ends with what passed, failed and was skipped, and why.

python -m tools.run_tests test       # make test: the tests with neither of the next two markers
python -m tools.run_tests more       # make test-more: those marked `more`, other environments
python -m tools.run_tests long       # make test-long: those marked `long`
python -m tools.run_tests clients    # one part

A part that fails does not keep the next one from running. Exit code 1: a test failed, or a part ran
none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "build/tests"
MAX_SHOWN = 100  # characters of a failure's or skip's message
BY_FILE = ("-n", "2", "--dist", "loadfile")
UNITS = ("--ignore", "tests/e2e", *BY_FILE)
# Modules that share a stack run in one process, those with the most to do first.
STACKS = ("tests/e2e", "-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
SHORT = "not more and not long"  # what `make test` runs
SUPPORT = "tests/worker/test_engine_support.py"
NEXT = (
    *(
        f"{SUPPORT}::test_these_versions_are_supported_and_their_seams_hold[{engine}]"
        for engine in ("vllm", "sglang")
    ),
    "tests/engines/frontends",
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/engines/*/test_frontend*"))),
    "tests/e2e/test_transcripts.py",
    "tests/e2e/test_stock_arguments.py",
    "tests/e2e/test_sglang.py::test_gives_exactly_the_transcript",
    *STACKS[1:],
)
LEFT_OUT = 77  # the exit code of a program that can run no test on this machine, and has said why
ENDS = {"failure": "failed", "error": "failed", "skipped": "skipped"}


class Part(NamedTuple):
    """Tests that run in one environment.

    program: what takes the arguments; `python` is the environment's.
    has_report: whether they are pytest's arguments, so that it can write a report.
    """

    name: str
    arguments: Sequence[str] = ()
    environment: str = ".venv"
    program: Sequence[str] = ("python", "-m", "pytest")
    has_report: bool = True


class Result(NamedTuple):
    """How a part ended. reasons: of skipped tests, with their numbers. failures: ids and errors."""

    part: str
    counts: Counter[str]
    minutes: float
    reasons: Counter[str]
    failures: Sequence[str]
    holds: bool


PARTS = {
    "test": (
        Part("units", (*UNITS, "-m", SHORT)),
        Part("stacks", (*STACKS, "-m", SHORT)),
    ),
    "more": (
        Part("more units", (*UNITS, "-m", "more")),
        Part("more stacks", (*STACKS, "-m", "more")),
        Part("next", NEXT, ".venv-1.7"),
        Part("clients", ("tests/clients",), ".venv-clients"),
        Part("seams", program=("python", "-m", "tools.seams"), has_report=False),
        Part("debian", (*BY_FILE, "-m", SHORT), program=("tools/debian",)),
    ),
    "long": (
        Part("long units", (*UNITS, "-m", "long")),
        Part("long stacks", (*STACKS, "-m", "long")),
    ),
}
CHOICES = PARTS | {part.name: (part,) for parts in PARTS.values() for part in parts}


def main() -> None:
    """Run the parts that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", choices=CHOICES)
    chosen = CHOICES[parser.parse_args().parts]
    REPORTS.mkdir(parents=True, exist_ok=True)
    results = [run(part) for part in chosen]
    print("\n".join(describe(results)))
    sys.exit(not all(result.holds for result in results))


def run(part: Part) -> Result:
    """Run a part to its end. Without its environment or its machine it is skipped."""
    python = ROOT / part.environment / "bin/python"
    if not python.exists():
        return skip(part, f"{part.environment}: what it needs cannot be had here")
    report = REPORTS / f"{part.name.replace(' ', '-')}.xml"
    report.unlink(missing_ok=True)
    program = [str(python) if word == "python" else word for word in part.program]
    command = [*program, *part.arguments]
    if part.has_report:
        command += ["-q", "--junitxml", str(report.relative_to(ROOT))]
    began = time.monotonic()
    # Each process and each part would compile the tests again, a minute each time.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    minutes, holds = (time.monotonic() - began) / 60, ended.returncode == 0
    if ended.returncode == LEFT_OUT:
        return skip(part, f"{part.name}: cannot run here, see above")
    if report.exists():
        return read_report(part.name, report, minutes, holds=holds)
    failures = [] if holds else [f"{part.name}: exit code {ended.returncode}, see above"]
    counts = Counter({"passed" if holds else "failed": 1})
    return Result(part.name, counts, minutes, Counter(), failures, holds)


def skip(part: Part, reason: str) -> Result:
    """Return the result of a part that runs no test on this machine."""
    return Result(part.name, Counter(skipped=1), 0, Counter([reason]), (), holds=True)


def read_report(part: str, report: Path, minutes: float, *, holds: bool) -> Result:
    """Read a part's result from the XML file that pytest wrote."""
    counts, reasons, failures = Counter[str](), Counter[str](), list[str]()
    for _, case in ET.iterparse(report):  # noqa: S314 - our own file
        if case.tag != "testcase":
            continue
        found = next((child for child in case if child.tag in ENDS), None)
        end = "passed" if found is None else ENDS[found.tag]
        message = "" if found is None else found.get("message", "").partition("\n")[0]
        counts[end] += 1
        if end == "skipped":
            reasons[message[:MAX_SHOWN]] += 1
        elif end == "failed":
            name = f"{case.get('classname')}::{case.get('name')}"
            failures.append(f"{name}: {message[:MAX_SHOWN]}")
        case.clear()
    return Result(part, counts, minutes, reasons, failures, holds)


def describe(results: Sequence[Result]) -> list[str]:
    """Return the lines of the summary."""
    lines = ["", f"{'part':<18}{'passed':>8}{'failed':>8}{'skipped':>9}{'minutes':>9}"]
    for result in results:
        passed, failed, skipped = (result.counts[end] for end in ("passed", "failed", "skipped"))
        lines.append(
            f"{result.part:<18}{passed:>8,}{failed:>8,}{skipped:>9,}{result.minutes:>9.1f}"
        )
        if not result.holds and not result.failures:
            lines.append("    no test failed, but pytest did, see above")
    reasons = sum((result.reasons for result in results), Counter[str]())
    if reasons:
        lines += ["", "skipped, because"]
        lines += [f"{count:>8,}  {reason}" for reason, count in reasons.most_common()]
    failures = [failure for result in results for failure in result.failures]
    if failures:
        lines += ["", "failed", *(f"    {failure}" for failure in failures)]
    return lines


if __name__ == "__main__":
    main()
