"""Percentiles of measured values."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the value that a fraction `part` of the sorted values does not exceed."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
