"""Percentiles of sorted values."""

from __future__ import annotations

import pytest

from benchmarks.percentiles import percentile


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [
        ([5.0], 0.0, 5.0),
        ([5.0], 1.0, 5.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 3.0),
        ([float(number) for number in range(100)], 0.99, 99.0),
        ([float(number) for number in range(100)], 1.0, 99.0),
    ],
)
def test_percentile(values: list[float], part: float, expected: float) -> None:
    assert percentile(values, part) == expected
