"""`python -m backedge.tokenization.kit my_package:MyTokenizer --model PATH`: the contract kit.

Exit status: 0 if the class keeps the contract, 1 if not, 2 if it cannot be loaded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from ...base.errors import BackedgeError
from ...tokenization.loading import Source, construct, create, split_name
from . import CHECKS, STREAMING_CHECKS, Outcome, passed, run

KEPT, BROKEN, NOT_LOADED = 0, 1, 2


class Report(msgspec.Struct, frozen=True):
    """The output of `--json`."""

    tokenizer: str
    model: str
    passed: bool
    checks: list[Outcome]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kit on a class and print the report; return the exit status."""
    parser = argparse.ArgumentParser(prog="backedge.tokenization.kit", description=__doc__)
    parser.add_argument("tokenizer", help="the class, as package.module:Class")
    parser.add_argument(
        "--model", required=True, help="the model's folder; the class is constructed with it"
    )
    parser.add_argument(
        "--streaming-only",
        action="store_true",
        help="check only that the class converts a stream of texts into lists of tokens",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    try:
        source = Source(*split_name(options.tokenizer), options.model)
        if options.streaming_only:
            outcomes = run(lambda: create_streaming(source), STREAMING_CHECKS)
        else:
            outcomes = run(lambda: construct(source))
    except BackedgeError as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return NOT_LOADED
    report = Report(source.name, source.model_path, passed(outcomes), outcomes)
    sys.stdout.write(format_json(report) if options.json else format_table(report))
    return KEPT if report.passed else BROKEN


def create_streaming(source: Source) -> object:
    """Return a new instance, which can be called. Raises `TokenizerLoadError`."""
    tokenizer = create(source)
    if not callable(tokenizer):
        raise source.load_error("found", "its instances cannot be called with texts")
    return tokenizer


def format_json(report: Report) -> str:
    """Return the report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(report)).decode() + "\n"


def format_table(report: Report) -> str:
    """Return a line for each check, and a summary."""
    requirements = {check.name: check.requirement for check in (*CHECKS, *STREAMING_CHECKS)}
    rows = [
        (
            outcome.outcome,
            outcome.check,
            requirements[outcome.check],
            outcome.detail.replace("\n", "\\n"),
        )
        for outcome in report.checks
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    lines = ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows]
    counts = {kind: sum(row[0] == kind for row in rows) for kind in ("passed", "failed", "skipped")}
    total = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    verdict = "keeps" if report.passed else "breaks"
    return "\n".join([*lines, f"{report.tokenizer} {verdict} the contract: {total}", ""])


if __name__ == "__main__":
    sys.exit(main())
