"""The tags that `grammars` measures; no test asserts a measured time."""

from __future__ import annotations

import pytest

from benchmarks.grammars import measure_all, table


@pytest.mark.parametrize("name", ["hermes", "minimax_m3"])
def test_ours_is_compiled_and_a_tag_that_is_refused_has_a_row(name: str) -> None:
    rows = measure_all([name], [1], 100)
    assert {row.source for row in rows} >= {"ours", "xgrammar"}
    for row in rows:
        assert bool(row.refused) == (row.mask_us is None)
        assert not (row.refused and row.source == "ours")
    assert len(table(rows).splitlines()) == len(rows) + 1
