"""The token counts of a request: its prompt, its output, its reasoning, and what was cached."""

from __future__ import annotations

from collections.abc import Sequence

from .choice import Choice
from .messages import Chunk, Usage


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

    def total(self, choices: Sequence[Choice]) -> Usage:
        """Return the usage so far."""
        return Usage(
            self._prompt_tokens,
            sum(choice.tokens for choice in choices),
            sum(choice.reasoning_tokens for choice in choices),
            self._cached_tokens,
        )
