"""`backedge parsers`: the names that `--tool-call-parser` and `--reasoning-parser` accept."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from ..parsers.parser_lookup import known_formats


class ParserRow(msgspec.Struct, frozen=True):
    """One name. tool_calls, reasoning: what its format covers. source: who defined the format."""

    name: str
    tool_calls: bool
    reasoning: bool
    source: str


def list_parsers() -> list[ParserRow]:
    """Return all names of linear parsers, in alphabetical order."""
    rows = []
    for name, entry in sorted(known_formats().items()):
        sources = [format_.source for format_ in (entry.tools, entry.reasoning) if format_]
        tool_calls, reasoning = entry.tools is not None, entry.reasoning is not None
        rows.append(ParserRow(name, tool_calls, reasoning, sources[0]))
    return rows


def show_table(rows: Sequence[ParserRow]) -> str:
    """Return `rows` as text, one per line."""
    width = max(len(row.name) for row in rows)
    lines = [f"{'name':{width}}  tools  reasoning  source"]
    for row in rows:
        tools, reasoning = ("yes" if has else "-" for has in (row.tool_calls, row.reasoning))
        lines.append(f"{row.name:{width}}  {tools:5}  {reasoning:9}  {row.source}")
    return "\n".join(lines)


@click.command("parsers")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> None:
    """List the linear parsers, whose cost per token is constant."""
    rows = list_parsers()
    click.echo(msgspec.json.encode(rows).decode() if as_json else show_table(rows))
