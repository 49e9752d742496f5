from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pairwise import pairwise

Row = tuple[object, ...]


def find_pairs(rows: list[Row]) -> set[object]:
    return {
        ((a, row[a]), (b, row[b]))
        for row in rows
        for a, b in itertools.combinations(range(len(row)), 2)
    }


@given(
    st.integers(2, 4).flatmap(lambda n: st.lists(st.tuples(*[st.integers(0, 3)] * n), unique=True))
)
def test_every_pair_of_the_matrix_is_selected(rows: list[Row]) -> None:
    selected = pairwise(rows)
    assert find_pairs(selected) == find_pairs(rows)
    assert selected == pairwise(rows)
    assert selected == [row for row in rows if row in selected]


@pytest.mark.parametrize(
    ("sizes", "most"), [((2, 2), 4), ((2, 2, 2), 4), ((23, 3, 2), 69), ((4, 3, 3, 2), 14)]
)
def test_few_rows_are_selected(sizes: tuple[int, ...], most: int) -> None:
    rows: list[Row] = list(itertools.product(*map(range, sizes)))
    assert len(pairwise(rows)) <= most
