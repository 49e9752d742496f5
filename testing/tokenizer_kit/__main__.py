"""`python -m backedge.tokenization.kit my_package:MyTokenizer --model PATH`: the contract kit."""

from __future__ import annotations

from typing import get_args

import click
import msgspec

from ...base.errors import BackedgeError
from ...base.hidden_characters import show_line
from ...base.terminal import format_json, format_table, print_text
from ...tokenization.custom_tokenizer import Source, construct, create, split_name
from . import CHECKS, STREAMING_CHECKS, Outcome, passed, run
from .runner import Result

PROGRAM = "python -m backedge.tokenization.kit"
KEPT, BROKEN, NOT_LOADED = 0, 1, 2
RESULTS: tuple[Result, ...] = get_args(Result)


class Report(msgspec.Struct, frozen=True):
    """The output of `--json`."""

    tokenizer: str
    model: str
    passed: bool
    checks: list[Outcome]


@click.command(
    epilog="Exit code: 0 if the class keeps the contract, 1 if not, 2 if it fails to load or a "
    "package is missing."
)
@click.argument("tokenizer", metavar="PACKAGE.MODULE:CLASS")
@click.option("--model", default="", metavar="PATH", help="Folder for the class's constructor.")
@click.option("--streaming-only", is_flag=True, help="Check only texts to lists of tokens.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def main(
    context: click.Context, *, tokenizer: str, model: str, streaming_only: bool, as_json: bool
) -> None:
    """Check a tokenizer class against the contract."""
    if not (model or streaming_only):
        context.fail("--model is missing; only --streaming-only needs none.")
    try:
        source = Source(*split_name(tokenizer), model)
        if streaming_only:
            outcomes = run(lambda: create_streaming(source), STREAMING_CHECKS)
        else:
            outcomes = run(lambda: construct(source))
    except BackedgeError as error:
        print_text(f"{PROGRAM}: {show_line(error)}", err=True)
        context.exit(NOT_LOADED)
    report = Report(source.name, source.model_path, passed(outcomes), outcomes)
    print_text(*(format_json(report, indent=2).split("\n") if as_json else show_report(report)))
    is_broken = any(outcome.outcome == "failed" for outcome in outcomes)
    context.exit(BROKEN if is_broken else KEPT if report.passed else NOT_LOADED)


def create_streaming(source: Source) -> object:
    """Return a new instance, which can be called. Raises `TokenizerLoadError`."""
    tokenizer = create(source)
    if not callable(tokenizer):
        raise source.load_error("found", "its instances cannot be called with texts")
    return tokenizer


def show_report(report: Report) -> list[str]:
    """Return a line for each check, and a summary."""
    requirements = {check.name: check.requirement for check in (*CHECKS, *STREAMING_CHECKS)}
    rows = [
        (each.outcome, each.check, requirements[each.check], each.detail) for each in report.checks
    ]
    counts = {kind: sum(row[0] == kind for row in rows) for kind in RESULTS}
    total = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    verdict = "keeps" if report.passed else "breaks" if counts["failed"] else "may keep"
    return [*format_table(rows), f"{report.tokenizer} {verdict} the contract: {total}"]


if __name__ == "__main__":
    main(prog_name=PROGRAM)
