"""Tokenizers that offer only `decode()`: mistral-common's, custom Python classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import Detokenizer, DetokenizerOptions
from .stream import CONTEXT_TOKENS, MAX_HELD_TOKENS, REPLACEMENT


class OffsetDetokenizers:
    """See `DetokenizerFactory`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._special = frozenset(getattr(tokenizer, "all_special_ids", ()))

    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        """See `DetokenizerFactory`."""
        return OffsetDetokenizer(self._tokenizer, options, prompt_token_ids)

    def token_bytes(self, token_id: int) -> bytes:
        """See `DetokenizerFactory`."""
        text: str = self._tokenizer.decode([token_id])
        return text.encode()

    def is_special(self, token_id: int) -> bool:
        """See `DetokenizerFactory`."""
        return token_id in self._special


class OffsetDetokenizer:
    """Decodes a short window twice per token and gives out the difference.

    The window begins some tokens before the first one not given out, because a
    token's leading space depends on the token before it.
    """

    def __init__(self, tokenizer: Any, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> None:
        self._decode = tokenizer.decode
        self._skip = options.skip_special_tokens
        self._window = list(prompt_token_ids[-CONTEXT_TOKENS:])
        # Half a character at the end of the prompt belongs to the output that completes it.
        self._given = len(self._text().rstrip(REPLACEMENT))
        self._held = 0

    def feed(self, token_id: int) -> str:
        """See `Detokenizer`."""
        self._window.append(token_id)
        self._held += 1
        text = self._text()
        if text.endswith(REPLACEMENT) and self._held < MAX_HELD_TOKENS:
            return ""
        new = text[self._given :]
        self._held = 0
        if len(self._window) > 2 * CONTEXT_TOKENS:
            del self._window[:-CONTEXT_TOKENS]
            text = self._text()
        self._given = len(text)
        return new

    def _text(self) -> str:
        text: str = self._decode(self._window, skip_special_tokens=self._skip)
        return text
