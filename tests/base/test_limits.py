"""docs/limits.md is made from base/limits.py, in which each limit has a row."""

from __future__ import annotations

import ast
import re

import pytest
from backedge.base import limits

from tools.limits_page import LIMITS, PAGE, read_tables, write_page

SOURCE = LIMITS.read_text(encoding="utf-8")
CONSTANTS = [name for name in vars(limits) if name.isupper()]


def test_the_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert write_page(page, SOURCE) == page


def test_each_limit_has_a_row() -> None:
    tables = read_tables(SOURCE)
    assert sum(table.count("\n") - 2 for table in tables.values()) == len(CONSTANTS)
    assert len(CONSTANTS) == sum(isinstance(node, ast.Assign) for node in ast.parse(SOURCE).body)


def test_the_page_has_all_tables() -> None:
    names = re.findall(r"<!-- limits: (.*) -->", PAGE.read_text(encoding="utf-8"))
    assert names == list(read_tables(SOURCE))


def test_a_row_has_the_figure_the_unit_and_what_happens_beyond_it() -> None:
    source = '"""Doc."""\n"""# T"""\nMAX_A = 1 << 12\n"""bytes: the a: b\n| it ends"""\n'
    assert read_tables(source)["T"].endswith("| the a: b | 4,096 bytes | it ends |\n")


def test_an_unknown_table_is_an_error() -> None:
    with pytest.raises(KeyError):
        write_page("<!-- limits: Others -->\n\n", SOURCE)
