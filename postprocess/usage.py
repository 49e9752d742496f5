"""The tokens of a request, added up over its choices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .messages import Chunk, Usage


class TokenCounts(Protocol):
    """Output tokens of one choice so far, and those of them that are reasoning."""

    tokens: int

    @property
    def reasoning_tokens(self) -> int:
        """Without the markers of reasoning."""
        ...


class UsageCounter:
    """Counts the tokens of one request.

    prompt_tokens: of the prompt as rendered, until the engine says how many it read.
    """

    def __init__(self, prompt_tokens: int) -> None:
        self._prompt_tokens = prompt_tokens
        self._cached_tokens: int | None = None
        self._resumed_tokens = 0

    def resume(self, tokens: int) -> None:
        """Count the tokens of a worker that died as output, although the engine reads them."""
        self._resumed_tokens += tokens

    def read(self, chunk: Chunk) -> None:
        """Take what the engine says of the prompt."""
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
