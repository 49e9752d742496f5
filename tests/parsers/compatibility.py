"""The tables of docs/compatibility.md: every parser of vLLM's, tried, and every format of our own.

`python -m tests.parsers.compatibility` prints it; with `--write` it goes into the page.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from backedge.parsers.errors import UnusableParserError
from backedge.parsers.formats import FORMATS
from backedge.parsers.registry import uses_native

from tests.parsers.cases import ARCHITECTURE_BOUND, CASES, KNOWN_DIFFERENCES, Case
from tests.parsers.core import core_of, every_token, outcome, output_of, parsers_of

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"
HEADS = {"tool": "`--tool-call-parser`", "reasoning": "`--reasoning-parser`"}


def table() -> str:
    """Return the tables, as of this run."""
    return "\n\n".join([*(_table(kind) for kind in HEADS), _formats()])


def _formats() -> str:
    rows = [
        f"| `{format_.name}` | {', '.join(f'`{alias}`' for alias in format_.aliases)} "
        f"| {'yes' if format_.parses_tools else ''} | {'yes' if format_.parses_reasoning else ''} | {format_.source} |"
        for format_ in sorted(FORMATS, key=lambda format_: format_.name)
    ]
    heads = "| linear format | also named | tool calls | reasoning | read from |"
    return "\n".join([heads, "|---|---|---|---|---|", *rows])


def _table(kind: str) -> str:
    names = sorted({case.id.split()[1] for case in CASES.values() if case.id.startswith(f"{kind} ")})
    rows = [f"| `{name}` | {' | '.join(row(kind, name))} |" for name in names]
    return "\n".join([f"| {HEADS[kind]} | linear | native starts | native | remark |", "|---|---|---|---|---|", *rows])


def row(kind: str, name: str) -> tuple[str, str, str, str]:
    """Return what the linear parser makes of the samples, then whether vLLM's starts, what it makes, and why."""
    cases = [case for case in CASES.values() if case.id.split()[:2] == [kind, name]]
    linear = next((found for found in map(linear_result, cases) if found != "right"), "right")
    results = [_result(case) for case in cases]
    starts = next((starts for starts, _, _ in results if starts != "yes"), "yes")
    right = next((right for _, right, _ in results if right != "right"), "right")
    return linear, starts, right, "; ".join(dict.fromkeys(remark for _, _, remark in results if remark))


def linear_result(case: Case) -> str:
    """Return what our own parser makes of the sample; empty if there is none of that name."""
    if uses_native("auto", case.tool_call_parser, case.reasoning_parser):
        return ""
    core = core_of(case.sample, parsers_of(case.sample, case.tool_call_parser, case.reasoning_parser, "linear"))
    right = outcome(core.run(every_token(output_of(core, case.sample)))) == case.sample.expected
    return "right" if right else "**wrong**"


def _result(case: Case) -> tuple[str, str, str]:
    # The same on every machine, whether or not the module is there.
    if case.sample.needs:
        return "if installed", "not run", f"needs the module `{case.sample.needs}`, which vLLM may come without"
    try:
        parsers = parsers_of(case.sample, case.tool_call_parser, case.reasoning_parser)
    except UnusableParserError as error:
        return "no", "not run", str(error).partition(" cannot be used: ")[2]
    core = core_of(case.sample, parsers)
    right = outcome(core.run(every_token(output_of(core, case.sample)))) == case.sample.expected
    remark = "only for gpt-oss models; refused for any other" if case.id in ARCHITECTURE_BOUND else ""
    if case.id in KNOWN_DIFFERENCES:
        remark = KNOWN_DIFFERENCES[case.id].why
    return "yes", "right" if right else "**wrong**", remark


def written() -> str:
    """Return the tables that the page has."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


def write() -> None:
    """Put the tables of this run into the page."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    PAGE.write_text(f"{before}{begin}\n{table()}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    logging.disable(logging.ERROR)
    if "--write" in sys.argv[1:]:
        write()
    else:
        sys.stdout.write(table() + "\n")
