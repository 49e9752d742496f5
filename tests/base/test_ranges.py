"""The ranges of a request's numbers, with their ends."""

from __future__ import annotations

import math

import pytest
from backedge.base.ranges import RANGES


@pytest.mark.parametrize("name", RANGES)
def test_a_range_has_its_ends_and_no_nan(name: str) -> None:
    allowed = RANGES[name]
    assert allowed.includes(allowed.most)
    assert allowed.includes(allowed.least) is not allowed.above
    for value in (allowed.least - 1, allowed.most * 2 + 1, math.nan, math.inf):
        assert not allowed.includes(value)


def test_a_range_is_described() -> None:
    assert str(RANGES["top_p"]) == "a number above 0, at most 1"
    assert str(RANGES["n"]) == "a number from 1 to 128"
