"""A benchmark of this checkout and of another one, in turn, as ratios of paired rounds.

    python -m benchmarks.beside ../older worker_cost [--json] [--rounds 4] [-- --limit-s 1]

Each checkout runs its own benchmark with its own package and this environment's others; what comes
after `--` goes to both. Both take turns, so a machine that is slow for a while is so for both. Rows
with the same words are one case, and each of their figures has a ratio: this checkout's by the
other's in the same round, and the median of the rounds.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .report import build_parser, compare_rounds, show

ROOT = Path(__file__).parent.parent
Figures = dict[tuple[str, str], float]
"""The figures of one run, by case and name."""


class Row(msgspec.Struct):
    """One figure. median: of this checkout. ratio: to the other's, the rounds' median."""

    case: str
    figure: str
    median: float
    ratio: float


class Checkout:
    """The package and the benchmarks of one checkout. packages: an empty folder for links."""

    def __init__(self, root: Path, packages: Path) -> None:
        self._root = root.resolve()
        package = packages / "backedge"
        package.mkdir()
        for folder in self._root.iterdir():
            if folder.is_dir() and any(folder.glob("*.py")):
                (package / folder.name).symlink_to(folder)
        for file in (self._root / "package").glob("*.py"):
            (package / file.name).symlink_to(file)
        self._path = packages

    def measure(self, benchmark: str, flags: Sequence[str]) -> Figures:
        """Run a benchmark once. Raises RuntimeError if it fails."""
        command = [sys.executable, "-m", f"benchmarks.{benchmark}", "--json", *flags]
        path = os.pathsep.join(map(str, (self._path, self._root)))
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(
            command, cwd=self._root, env=environment, stdout=subprocess.PIPE, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{self._root}: the benchmark fails; its error is above")
        return dict(read_figures(json.loads(done.stdout)))


def read_figures(tables: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the figures of a benchmark's report.

    A figure may be text, as "1.58". A row's case is what it has besides: its words, and all of its
    field `case`. Titles of tables differ between commits.
    """
    for row in itertools.chain(*(rows for rows in tables.values() if isinstance(rows, list))):
        leaves = dict(list_leaves(row))
        numbers = ((name, as_number(value)) for name, value in leaves.items())
        figures = {
            name: value
            for name, value in numbers
            if value is not None and not name.startswith("case.")
        }
        case = ", ".join(str(leaf) for name, leaf in leaves.items() if leaf and name not in figures)
        for name, value in figures.items():
            yield (case.strip(", "), name), value


def as_number(value: object) -> float | None:
    """Return a figure, which may be text; None for words."""
    if isinstance(value, str):
        return float(value) if re.fullmatch(r"\d+(\.\d+)?", value) else None
    return value if isinstance(value, int | float) else None


def list_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in nested objects and lists, each with its name."""
    if not isinstance(value, dict | list):
        yield name, value
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from list_leaves(inner, f"{name}.{key}" if name else str(key))


def compare(rounds: Iterable[tuple[Figures, Figures]]) -> Iterator[Row]:
    """Yield a row for each figure that both checkouts have. rounds: this one's, the other's."""
    found: defaultdict[tuple[str, str], tuple[list[float], list[float]]] = defaultdict(
        lambda: ([], [])
    )
    for ours, others in rounds:
        for name in ours.keys() & others.keys():
            if ours[name] > 0 and others[name] > 0:
                found[name][0].append(ours[name])
                found[name][1].append(others[name])
    for (case, figure), (one, other) in sorted(found.items()):
        yield Row(case, figure, statistics.median(one), compare_rounds(one, other))


def run_rounds(
    other: Path, benchmark: str, rounds: int, flags: Sequence[str]
) -> Iterator[tuple[Figures, Figures]]:
    """Yield the figures of each round; each checkout goes first in turn."""
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        checkouts = Checkout(ROOT, Path(ours)), Checkout(other, Path(theirs))
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            order = (0, 1) if number % 2 else (1, 0)
            measured = {side: checkouts[side].measure(benchmark, flags) for side in order}
            yield measured[0], measured[1]


def main(command_line: Sequence[str] | None = None) -> None:
    """Run the benchmark in both checkouts and print the ratios."""
    parser = build_parser(__doc__, 4)
    parser.add_argument("checkout", type=Path, help="of another commit, not this one")
    parser.add_argument("benchmark", help="such as frontend_cost, worker_cost or parsers")
    words = list(sys.argv[1:] if command_line is None else command_line)
    end = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:end])
    rounds = run_rounds(arguments.checkout, arguments.benchmark, arguments.rounds, words[end + 1 :])
    rows = list(compare(rounds))
    if not rows:
        parser.error(f"{arguments.benchmark}: the checkouts have no figure in common")
    show({f"{arguments.benchmark}, beside {arguments.checkout}": rows}, as_json=arguments.json)


if __name__ == "__main__":
    main()
