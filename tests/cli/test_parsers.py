"""`backedge parsers`."""

from __future__ import annotations

import msgspec
from backedge.cli.main import main
from backedge.cli.parsers import ParserRow
from backedge.parsers.parser_lookup import known_formats
from click.testing import CliRunner


def test_lists_every_name() -> None:
    result = CliRunner().invoke(main, ["parsers", "--json"])
    rows = msgspec.json.decode(result.output, type=list[ParserRow])
    assert {row.name for row in rows} == set(known_formats())
    assert all(row.tool_calls or row.reasoning for row in rows)


def test_the_table_has_a_line_for_each_name() -> None:
    lines = CliRunner().invoke(main, ["parsers"]).output.splitlines()
    assert len(lines) == len(known_formats()) + 1
    assert next(line for line in lines if line.startswith("hermes ")).split()[1] == "yes"
