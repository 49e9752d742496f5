"""docs/compatibility.md says what a run gives."""

from __future__ import annotations

from tests.parsers.compatibility import table, written


def test_the_page_has_the_table_of_this_run():
    assert written() == table(), "run: python -m tests.parsers.compatibility --write"
