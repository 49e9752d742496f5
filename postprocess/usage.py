"""Counts the tokens of a request over all its choices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .messages import Chunk, Usage


class TokenCounts(Protocol):
    """Number of output tokens of one choice so far, and how many of them are reasoning."""

    tokens: int

    @property
    def reasoning_tokens(self) -> int:
        """Number of reasoning tokens, without markers."""
        ...


class UsageCounter:
    """Counts the tokens of one request.

    prompt_tokens: of the rendered prompt, until the engine reports its own count.
    """

    def __init__(self, prompt_tokens: int) -> None:
        self._prompt_tokens = prompt_tokens
        self._cached_tokens: int | None = None
        self._resumed_tokens = 0

    def resume(self, tokens: int) -> None:
        """Count tokens of a worker that died as output, although this engine reads them."""
        self._resumed_tokens += tokens

    def read(self, chunk: Chunk) -> None:
        """Take the engine's counts of prompt tokens."""
        if chunk.prompt_tokens is not None:
            self._prompt_tokens = chunk.prompt_tokens - self._resumed_tokens
        if chunk.cached_tokens is not None:
            self._cached_tokens = chunk.cached_tokens

    def total(self, choices: Iterable[TokenCounts]) -> Usage:
        """Return the usage so far."""
        choices = tuple(choices)
        return Usage(
            self._prompt_tokens,
            sum(choice.tokens for choice in choices),
            sum(choice.reasoning_tokens for choice in choices),
            self._cached_tokens,
        )
