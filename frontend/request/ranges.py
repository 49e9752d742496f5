"""Checks the numbers of a request that reach an engine against their valid ranges.

Engines use some as array indexes and others as sizes; their reaction to an invalid number differs,
and some end the worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...base.errors import RequestError
from ...base.limits import MAX_CHOICES, MAX_STOP_TOKEN_IDS, MAX_TOP_LOGPROBS
from .chat_request import ChatRequest

INT_32, INT_64 = 2**31 - 1, 2**63 - 1


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


def check_ranges(request: ChatRequest, vocabulary_size: int | None) -> None:
    """Raise `RequestError` for the first number out of its range.

    vocabulary_size: of the model, in tokens; None if unknown.
    """
    for field, allowed in RANGES.items():
        _check(field, getattr(request, field), allowed)
    if request.nvext is not None:
        budget = RANGES["thinking_token_budget"]
        _check("nvext.max_thinking_tokens", request.nvext.max_thinking_tokens, budget)
    tokens = vocabulary_size or INT_32 + 1
    # vLLM takes -1 for all tokens of the vocabulary.
    _check("prompt_logprobs", request.prompt_logprobs, Range(-1, tokens))
    _check_stop_token_ids(request, tokens)


def _check(field: str, value: float | None, allowed: Range) -> None:
    if value is not None and not allowed.includes(value):
        raise RequestError.wrong(field, value, str(allowed))


def _check_stop_token_ids(request: ChatRequest, tokens: int) -> None:
    token_ids = request.stop_token_ids or []
    field = request.written_name("stop_token_ids")
    if len(token_ids) > MAX_STOP_TOKEN_IDS:
        raise RequestError.too_many(field, len(token_ids), "token ids", MAX_STOP_TOKEN_IDS)
    for position, token_id in enumerate(token_ids):
        if not 0 <= token_id < tokens:
            allowed = f"a token id of the model, from 0 to {tokens - 1:,}"
            raise RequestError.wrong(f"{field}[{position}]", token_id, allowed)
