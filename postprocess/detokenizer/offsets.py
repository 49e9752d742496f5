"""Tokenizers that offer only `decode()`: mistral-common's, custom Python classes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
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
        self._text = decoder(tokenizer, skip_special_tokens=options.skip_special_tokens)
        self._window = list(prompt_token_ids[-CONTEXT_TOKENS:])
        # Half a character at the end of the prompt belongs to the output that completes it.
        self._given = len(whole_characters(self._text(self._window)))

    def feed(self, token_id: int) -> str:
        """See `Detokenizer`."""
        self._window.append(token_id)
        text = whole_characters(self._text(self._window))
        new = text[self._given :]
        if len(self._window) > 2 * CONTEXT_TOKENS:
            del self._window[:-CONTEXT_TOKENS]
            text = whole_characters(self._text(self._window))
        self._given = len(text)
        return new


def decoder(tokenizer: Any, *, skip_special_tokens: bool) -> Callable[[list[int]], str]:
    """Return what decodes token ids, as the engine does.

    vLLM's tokenizer for mistral-common is asked for tokens first, as vLLM itself
    does: its `decode` writes the raw pieces of SentencePiece, and leaves out
    [TOOL_CALLS] with other special tokens. Only tekken's special tokens, where
    they are to be shown, come out right of `decode` alone.
    """
    by_tokens = getattr(tokenizer, "is_spm", False) or (skip_special_tokens and getattr(tokenizer, "is_tekken", False))
    if not by_tokens:
        return functools.partial(tokenizer.decode, skip_special_tokens=skip_special_tokens)

    def decode(token_ids: list[int]) -> str:
        tokens = tokenizer.convert_ids_to_tokens(token_ids, skip_special_tokens=skip_special_tokens)
        text: str = tokenizer.convert_tokens_to_string(tokens)
        return text

    return decode


def whole_characters(text: str) -> str:
    """Return `text` without the replacement characters that may still become one.

    An unfinished character has at most three bytes, and decoders write one
    replacement for all of them or one for each; further ones are final.
    """
    end = len(text)
    while end and len(text) - end < UNFINISHED_BYTES and text[end - 1] == REPLACEMENT:
        end -= 1
    return text[:end]
