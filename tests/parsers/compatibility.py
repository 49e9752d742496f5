"""The tables of docs/compatibility.md: every parser of the engines, tested, and every format.

`python -m tests.parsers.compatibility` prints the tables; `--write` puts them into the page.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from backedge.base.errors import UnusableParserError
from backedge.parsers.base import ParserFactory
from backedge.parsers.formats.catalog import FORMATS

from tests.parsers.cases import ARCHITECTURE_BOUND, ENGINES, Case, EngineCases
from tests.parsers.sample_model import (
    SampleModel,
    build_case_parsers,
    build_model,
    build_parsers,
    encode_output,
    every_token,
    read_outcome,
)

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"
HEADS = {"tool": "`--tool-call-parser`", "reasoning": "`--reasoning-parser`"}
IN_ONE_PIECE = "in one piece"
NOT_RUN = "not run"


def table() -> str:
    """Return the tables of this run."""
    parts = [
        part
        for engine in ENGINES
        for part in (f"### {engine.title}", *(_table(engine, kind) for kind in HEADS))
    ]
    return "\n\n".join([*parts, "### Linear formats", _formats()])


def _formats() -> str:
    """Return the linear formats by the flags that take their names."""
    kinds: dict[str, list[str]] = {
        "both": [],
        "`--tool-call-parser`": [],
        "`--reasoning-parser`": [],
    }
    for format_ in sorted(FORMATS, key=lambda format_: format_.name):
        also = f" ({', '.join(f'`{alias}`' for alias in format_.aliases)})"
        kind = (
            "both"
            if format_.parses_tools and format_.parses_reasoning
            else (HEADS["tool"] if format_.parses_tools else HEADS["reasoning"])
        )
        kinds[kind].append(f"`{format_.name}`{also if format_.aliases else ''}")
    rows = [f"| {kind} | {', '.join(names)} |" for kind, names in kinds.items()]
    return "\n".join(["| Flag | Linear formats, and their other names |", "|---|---|", *rows])


def _table(engine: EngineCases, kind: str) -> str:
    """Return a table with a row for all parsers whose results are equal."""
    names = sorted(
        {case.id.split()[1] for case in engine.cases.values() if case.id.startswith(f"{kind} ")}
    )
    equal: dict[tuple[str, str, str], list[str]] = {}
    for name in names:
        equal.setdefault(row(engine, kind, name), []).append(f"`{name}`")
    # First the rows without a remark, the longest first.
    ordered = sorted(equal.items(), key=lambda item: (item[0][2] != "", -len(item[1])))
    rows = [f"| {', '.join(names)} | {' | '.join(cells)} |" for cells, names in ordered]
    return "\n".join([f"| {HEADS[kind]} | native | streams | remark |", "|---|---|---|---|", *rows])


def row(engine: EngineCases, kind: str, name: str) -> tuple[str, str, str]:
    """Return the cells of the parser `name`: native, streams, remark."""
    cases = [case for case in engine.cases.values() if case.id.split()[:2] == [kind, name]]
    results = [_result(engine, case) for case in cases]
    right, streams = (
        next((result[column] for result in results if result[column] != usual), usual)
        for column, usual in enumerate(("right", "yes"))
    )
    remarks = [remark for *_, remark in results if remark]
    if any(linear_result(case) != "right" for case in cases):
        remarks.append("the linear parser is **wrong**")
    return right, streams, "; ".join(dict.fromkeys(remarks))


def linear_result(case: Case) -> str:
    """Return the result of our own parser for the sample."""
    return _run(case, build_parsers(case.sample, case.names, "linear"))[0]


def _result(engine: EngineCases, case: Case) -> tuple[str, str, str]:
    # The same on every machine, whether or not the module is there.
    if case.sample.needs:
        remark = f"starts only with the module `{case.sample.needs}`, which {engine.title} may lack"
        return NOT_RUN, NOT_RUN, remark
    try:
        parsers = build_case_parsers(case)
    except UnusableParserError as error:
        reason = str(error).partition(" cannot be used: ")[2]
        return NOT_RUN, NOT_RUN, f"does not start: {reason}"
    right, streams = _run(case, parsers)
    bound = case.engine == "vllm" and case.id in ARCHITECTURE_BOUND
    remark = "only for gpt-oss models; refused for any other" if bound else ""
    return right, streams, remark


def _run(case: Case, parsers: ParserFactory) -> tuple[str, str]:
    """Return whether the result is what the model meant, and whether it came in pieces."""
    model = build_model(case.sample, parsers)
    right = (
        read_outcome(model.run(every_token(encode_output(model, case.sample))))
        == case.sample.expected
    )
    return "right" if right else "**wrong**", "yes" if _pieces(
        model, tools=bool(case.sample.tools)
    ) > 1 else IN_ONE_PIECE


def _pieces(model: SampleModel, *, tools: bool) -> int:
    """Return the number of chunks with arguments; without tools, with reasoning or else content."""
    deltas = [delta.delta for chunk in model.chunks for delta in chunk]
    if tools:
        return sum(any(call.function.arguments for call in delta.tool_calls) for delta in deltas)
    return sum(bool(delta.reasoning_content) for delta in deltas) or sum(
        bool(delta.content) for delta in deltas
    )


def written() -> str:
    """Return the tables in the page."""
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
