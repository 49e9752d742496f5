"""How `frontend_cost` measures short answers beside long ones."""

from __future__ import annotations

import pytest

from benchmarks.frontend_cost import MAX_TIMES, cut_answer


@pytest.mark.parametrize(
    ("tokens", "longest", "expected"),
    [(600, 600, (0, 1)), (100, 600, (100, 6)), (20, 600, (20, MAX_TIMES)), (0, 0, (0, 1))],
)
def test_short_answers_are_cut_and_more_in_number(
    tokens: int, longest: int, expected: tuple[int, int]
) -> None:
    assert cut_answer(tokens, longest) == expected
