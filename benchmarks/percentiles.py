"""Percentiles of what was measured."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the value that `part` of the sorted values do not exceed."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
