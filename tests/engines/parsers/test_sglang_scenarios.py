"""SGLang's tool parsers on every scenario, streamed by us and in one batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.samples.sample import Outcome
from tests.engines.parsers.scenarios import ROWS, WRONG_SIDES, Row, batch, streamed

SIDES: dict[str, Callable[[Row], Outcome]] = {"stream": streamed, "batch": batch}


def is_right(side: Callable[[Row], Outcome], row: Row) -> bool:
    try:
        return side(row) == row.case.expected
    except Exception:  # noqa: BLE001 - whatever it raises, it gives no result; our guard shows the text then
        return False


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_both_are_right_or_the_table_says_why_not(row: Row) -> None:
    wrong = tuple(name for name, side in SIDES.items() if not is_right(side, row))
    known = WRONG_SIDES.get((row.name, row.case.id))
    assert wrong == (known.sides if known else ())


def test_every_difference_is_of_a_row() -> None:
    assert WRONG_SIDES.keys() <= {(row.name, row.case.id) for row in ROWS}
