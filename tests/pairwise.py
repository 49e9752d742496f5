"""Small selections of large matrices of test cases."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import TypeVar

Row = TypeVar("Row", bound=tuple[object, ...])
# Set by `make test-all`.
WHOLE = bool(os.environ.get("WHOLE_MATRICES"))


def select(rows: Sequence[Row]) -> Sequence[Row]:
    """Return all rows under `make test-all`, else `pairwise(rows)`."""
    return rows if WHOLE else pairwise(rows)


def pairwise(rows: Sequence[Row]) -> list[Row]:
    """Return some of the rows that still contain every pair of values of two columns.

    rows: the allowed combinations, all of the same length, of hashable values. The order stays,
    and the same rows always give the same selection: the row with the most new pairs is next.
    """
    pairs = [
        {((a, row[a]), (b, row[b])) for a, b in itertools.combinations(range(len(row)), 2)}
        for row in rows
    ]
    missing = set[object]().union(*pairs)
    chosen = set()
    while missing:
        best = max(range(len(rows)), key=lambda number: len(pairs[number] & missing))
        chosen.add(best)
        missing -= pairs[best]
    return [rows[number] for number in sorted(chosen)]
