"""docs/limits.md gives the bounds that the code has."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "limits.md"
ROW = re.compile(r"\| [^|]+ \| ([\d,]+) \w+ \| [^|]+ \| `([\w/]+)\.py` `(\w+)` \|")
ROWS = [match.groups() for match in map(ROW.fullmatch, PAGE.read_text().splitlines()) if match]


def test_every_row_is_read() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    tables = sum(line.startswith("|---") for line in rows)
    assert len(ROWS) == len(rows) - 2 * tables > 0


@pytest.mark.parametrize(("figure", "module", "name"), ROWS)
def test_the_code_has_the_bound(figure: str, module: str, name: str) -> None:
    found = importlib.import_module(f"backedge.{module.replace('/', '.')}")
    assert getattr(found, name) == int(figure.replace(",", ""))
