"""The valid ranges of a request's numbers, in servers and in batches.

Engines use some as array indexes and others as sizes; their reaction to an invalid number differs,
and some end the worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .limits import MAX_CHOICES, MAX_TOP_LOGPROBS

INT_32, INT_64 = 2**31 - 1, 2**63 - 1
# Dynamo's number of alternatives of a token that stands for all, which vLLM calls -1.
ALL_ALTERNATIVES = 2**32 - 1


class Range(NamedTuple):
    """The numbers from `least` to `most`; if `above`, without `least` itself."""

    least: float
    most: float
    above: bool = False

    def includes(self, value: float) -> bool:
        """Whether the range includes `value`; false for NaN."""
        return self.least <= value <= self.most and not (self.above and value == self.least)

    def __str__(self) -> str:
        least = f"above {self.least:,}, at most" if self.above else f"from {self.least:,} to"
        return f"a number {least} {self.most:,}"


RANGES: Mapping[str, Range] = {
    "n": Range(1, MAX_CHOICES),
    "seed": Range(-INT_64 - 1, INT_64),
    "temperature": Range(0, 2),
    "top_p": Range(0, 1, above=True),
    "top_k": Range(-1, INT_32),
    "min_p": Range(0, 1),
    "presence_penalty": Range(-2, 2),
    "frequency_penalty": Range(-2, 2),
    "repetition_penalty": Range(0, 2, above=True),
    "max_tokens": Range(1, INT_32),
    "max_completion_tokens": Range(1, INT_32),
    "min_tokens": Range(0, INT_32),
    "thinking_token_budget": Range(0, INT_32),
    "top_logprobs": Range(0, MAX_TOP_LOGPROBS),
}
