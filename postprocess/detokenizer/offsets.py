"""Tokenizers that offer only `decode()`: mistral-common's, custom Python classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import Detokenizer, DetokenizerOptions

REPLACEMENT = "\ufffd"
UNFINISHED_BYTES = 3
# Enough for any rule by which a tokenizer lets a token depend on those before it.
CONTEXT_TOKENS = 8


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
    """Decodes a short window per token and gives out what is new at its end.

    The window begins some tokens before the first one not given out, because a
    token's leading space depends on the token before it.
    """

    def __init__(self, tokenizer: Any, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> None:
        self._decode = tokenizer.decode
        self._skip = options.skip_special_tokens
        self._window = list(prompt_token_ids[-CONTEXT_TOKENS:])
        # Half a character at the end of the prompt belongs to the output that completes it.
        self._given = len(whole_characters(self._text()))

    def feed(self, token_id: int) -> str:
        """See `Detokenizer`."""
        self._window.append(token_id)
        text = whole_characters(self._text())
        new = text[self._given :]
        if len(self._window) > 2 * CONTEXT_TOKENS:
            del self._window[:-CONTEXT_TOKENS]
            text = whole_characters(self._text())
        self._given = len(text)
        return new

    def _text(self) -> str:
        text: str = self._decode(self._window, skip_special_tokens=self._skip)
        return text


def whole_characters(text: str) -> str:
    """Return `text` without the replacement characters that may still become one.

    An unfinished character has at most three bytes, and decoders write one
    replacement for all of them or one for each; further ones are final.
    """
    end = len(text)
    while end and len(text) - end < UNFINISHED_BYTES and text[end - 1] == REPLACEMENT:
        end -= 1
    return text[:end]
