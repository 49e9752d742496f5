"""docs/upstream/: a report for each mistake of an engine's own parser, ready to be filed.

`python -m tests.parsers.upstream --write` writes the pages from the tables of known mistakes, whose
entries fail their tests once the engine has mended them; without it, it prints the pages.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from backedge.engines.vllm.parsers import CANNOT_STREAM

from benchmarks.samples.sample import Outcome, Sample
from tests.engines.parsers.scenarios import ROWS, SGLANG_ERRORS, Row, Wrong, batch, streamed
from tests.parsers.cases import CASES, ENGINES, EngineCases

FOLDER = Path(__file__).parents[2] / "docs" / "upstream"
FLAGS = {"tool_call": "--tool-call-parser", "reasoning": "--reasoning-parser"}
STREAM, BATCH = "streamed token by token", "in one piece"
SIDES = {"stream": (STREAM, streamed), "batch": (BATCH, batch)}


@dataclass(frozen=True)
class Report:
    """One mistake. flags: of the engine's server. got: by how the output was fed."""

    flags: str
    why: str
    output: str
    tools: list[dict[str, Any]]
    expected: Outcome
    got: dict[str, str]


def reports(engine: EngineCases) -> Iterator[Report]:
    """Yield the mistakes of an engine's parsers."""
    for key, difference in engine.differences.items():
        case = engine.cases[key]
        flags = {flag: getattr(case.names, kind) for kind, flag in FLAGS.items()}
        shown = " ".join(f"{flag} {name}" for flag, name in flags.items() if name)
        yield _report(shown, difference.why, case.sample, {STREAM: difference.gives})
    if engine.title == "vLLM":
        for name, why in CANNOT_STREAM.items():
            sample = CASES[f"tool {name}"].sample
            yield _report(f"{FLAGS['tool_call']} {name}", why, sample, {STREAM: Outcome()})
    else:
        yield from map(_report_scenario, SGLANG_ERRORS)


def _report(flags: str, why: str, sample: Sample, got: dict[str, Outcome]) -> Report:
    shown = {side: show(outcome) for side, outcome in got.items()}
    return Report(flags, why, sample.output, list(sample.tools), sample.expected, shown)


def _report_scenario(wrong: Wrong) -> Report:
    rows = [row for row in ROWS if row.name in wrong.names and row.case.id in wrong.scenarios]
    row = min(rows, key=lambda row: (len(row.case.output), row.name))
    called = {call.name for call in row.case.expected.calls}
    return Report(
        f"{FLAGS['tool_call']} {' or '.join(wrong.names)}",
        wrong.why,
        row.case.output,
        [tool for tool in row.tools if tool["function"]["name"] in called] or row.tools,
        row.case.expected,
        {SIDES[side][0]: _read(side, row) for side in wrong.sides},
    )


def _read(side: str, row: Row) -> str:
    try:
        return show(SIDES[side][1](row))
    except Exception as error:  # noqa: BLE001 - the report says what the parser raises
        return f"{type(error).__name__}: {error}"


def show(outcome: Outcome) -> str:
    """Return an outcome as JSON."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in outcome.calls]
    parts = {"reasoning": outcome.reasoning, "content": outcome.content, "tool_calls": calls}
    return json.dumps({key: part for key, part in parts.items() if part}, ensure_ascii=False)


def page(engine: EngineCases) -> str:
    """Return the page of an engine's mistakes."""
    distribution = engine.title.lower()
    head = (
        f"# {engine.title}'s parsers\n\n"
        f"What {engine.title} {version(distribution).partition('+')[0]} makes of a model's output "
        "with its own parsers, and what the model meant. The page is written by\n"
        "`python -m tests.parsers.upstream --write`; each entry has a test that fails once it is "
        "mended.\n"
    )
    return "\n".join([head, *(_section(report) for report in reports(engine))])


def _section(report: Report) -> str:
    parts = [
        f"## `{report.flags}`: {report.why.rstrip('.')}\n",
        _block("The model's output:", report.output, "text"),
        _block("Tools:", json.dumps(report.tools), "json") if report.tools else "",
        _block("Expected:", show(report.expected), "json"),
        *(_block(f"Got, {side}:", got, "json") for side, got in report.got.items()),
    ]
    return "\n".join(filter(None, parts))


def _block(title: str, text: str, language: str) -> str:
    fence = "````" if "```" in text else "```"
    return f"{title}\n\n{fence}{language}\n{text}\n{fence}\n"


def pages() -> dict[Path, str]:
    """Return the pages by their files."""
    return {FOLDER / f"{engine.title.lower()}.md": page(engine) for engine in ENGINES}


def main() -> None:
    """Print or write the pages."""
    logging.disable(logging.ERROR)
    for path, text in pages().items():
        if "--write" in sys.argv[1:]:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(text)


if __name__ == "__main__":
    main()
