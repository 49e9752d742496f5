"""The parsers of two checkouts in one run: CPU time per token, as ratios of paired rounds.

    python -m benchmarks.beside ../older [--json] [--families hermes glm45] [--rounds 4]

Each checkout's parsers run in a process of their own, with this environment's packages. Both read
the same tokens, in turn: a call of each format with a long argument, and an answer and reasoning
without markers. A ratio is the first's figure, this checkout's, divided by the other's in the same
round; a machine that is slow for a while is so for both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from backedge.tokenization.detokenizer import read_vocabulary

from .parsers import LongCall, families, program_text
from .report import build_parser, compare_rounds, show

ROOT = Path(__file__).parent.parent
# Starts of both processes: each lies otherwise in memory, which alone makes one a tenth faster.
STARTS = 8
# The fastest of so many counts: the others met something else on the machine.
REPETITIONS = 5
# The process of a checkout. It uses names that no checkout has moved.
CHILD = """
import gc, json, sys, time
# This checkout may be installed: the other one must not take modules from it.
sys.meta_path = [each for each in sys.meta_path if not each.__module__.startswith("__editable__")]
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
gc.disable()
factories = {}
for line in sys.stdin:
    plan = json.loads(line)
    request = ParserRequest(tools=plan["tools"], tool_choice="auto")
    key = json.dumps([plan["names"], plan["ids"]])
    if key not in factories:
        factories[key] = linear_parsers(ParserNames(*plan["names"]), Vocabulary(plan["ids"]))
    spent = []
    for _ in range(REPETITIONS):
        parser, pieces = factories[key](request, []), plan["pieces"]
        feed, began = parser.feed, time.process_time_ns()
        for text, token_ids in pieces:
            feed(text, token_ids)
        parser.finish()
        spent.append(time.process_time_ns() - began)
    print(min(spent), flush=True)
    gc.collect()
""".replace("REPETITIONS", str(REPETITIONS))


class Case(msgspec.Struct):
    """The input of both checkouts. names: of the tools' and the reasoning's parser.

    ids: the marker tokens. pieces: each token's text and ids.
    """

    name: str
    names: tuple[str | None, str | None]
    tools: list[Any]
    ids: dict[str, int]
    pieces: list[tuple[str, list[int]]]


class Row(msgspec.Struct):
    """One case. us: per token, of this checkout. ratio: to the other's, the rounds' median.

    fastest: the ratio of the fastest rounds, which a busy machine changes least.
    """

    case: str
    tokens: int
    us: float
    ratio: float
    fastest: float


class Checkout:
    """A process with the parsers of one checkout."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        packages = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (packages / "backedge").symlink_to(root.resolve(), target_is_directory=True)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(packages)},
        )
        stack.callback(self._process.communicate)
        stack.callback(self._process.kill)

    def measure(self, case: Case) -> float:
        """Return CPU microseconds per token. Raises RuntimeError if the process has ended."""
        to, answers = self._process.stdin, self._process.stdout
        if to is None or answers is None:
            raise RuntimeError("the process has no pipes")
        print(json.dumps(msgspec.to_builtins(case)), file=to, flush=True)
        if not (line := answers.readline()):
            raise RuntimeError("the parsers' process has ended; its error is above")
        return int(line) / 1000 / len(case.pieces)


def list_cases(wanted: Sequence[str], size: int) -> Iterator[Case]:
    """Yield the cases. wanted: families; none for all. size: argument tokens of each call."""
    words = [(word, [0]) for word in program_text(4 * size).split(" ")]
    for name, opening in (("content", []), ("reasoning", [("<think>", [1])])):
        yield Case(name, ("hermes", "qwen3"), [], {"<think>": 1}, [*opening, *words])
    for family in families()[0]:
        if wanted and family.name not in wanted:
            continue
        ids = dict(read_vocabulary(family.tokenizer).ids)
        pieces = LongCall(family, size).pieces(shows_special_tokens=True)
        names = family.format_names[0], None
        yield Case(family.name, names, list(family.sample.tools), ids, pieces)


def measure(cases: Sequence[Case], other: Path, rounds: int) -> Iterator[Row]:
    """Yield a row for each case, once all rounds have run."""
    found: Mapping[str, tuple[list[float], list[float]]] = {case.name: ([], []) for case in cases}
    for start in range(STARTS):
        with ExitStack() as stack:
            roots = (ROOT, other) if start % 2 else (other, ROOT)
            started = {root: Checkout(root, stack) for root in roots}
            both = started[ROOT], started[other]
            for number in range(-1, rounds):  # the first compiles the formats
                for place, case in enumerate(cases):
                    for side in (0, 1) if (start + number + place) % 2 else (1, 0):
                        us = both[side].measure(case)
                        if number >= 0:
                            found[case.name][side].append(us)
    for case in cases:
        ours, others = found[case.name]
        yield Row(
            case.name,
            len(case.pieces),
            statistics.median(ours),
            compare_rounds(ours, others),
            min(ours) / min(others),
        )


def main() -> None:
    """Run the benchmark and print its report."""
    parser = build_parser(__doc__, 4)
    parser.add_argument("checkout", type=Path, help="of another commit, not this one")
    parser.add_argument("--families", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--size", type=int, default=1000, help="tokens of an argument, about")
    arguments = parser.parse_args()
    cases = list(list_cases(arguments.families, arguments.size))
    rows = list(measure(cases, arguments.checkout, arguments.rounds))
    columns = zip(*((row.us, row.ratio, row.fastest) for row in rows), strict=True)
    medians = map(statistics.median, columns)
    rows.append(Row("all: medians", sum(row.tokens for row in rows), *medians))
    show({"us per token, and its ratio to the other checkout's": rows}, as_json=arguments.json)


if __name__ == "__main__":
    main()
