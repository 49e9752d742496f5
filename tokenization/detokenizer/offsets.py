"""Tokenizers that offer only `decode()`: mistral-common's, custom Python classes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from .base import REPLACEMENT, Detokenizer, DetokenizerFactory, DetokenizerOptions
from .vocabulary import special_ids

UNFINISHED_BYTES = 3
# Enough for any rule by which a tokenizer lets a token depend on those before it.
CONTEXT_TOKENS = 8
# A window is cut where the rest decodes as it did; one that cannot be is cut at this length.
MAX_WINDOW_TOKENS = 32


class OffsetDetokenizers(DetokenizerFactory):
    """See `DetokenizerFactory`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._special = special_ids(tokenizer)

    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        """See `DetokenizerFactory`."""
        return OffsetDetokenizer(self._tokenizer, self._special, options, prompt_token_ids)

    def token_bytes(self, token_id: int) -> bytes:
        """See `DetokenizerFactory`."""
        text: str = self._tokenizer.decode([token_id], skip_special_tokens=False)
        return text.encode()

    def is_special(self, token_id: int) -> bool:
        """See `DetokenizerFactory`."""
        return token_id in self._special


class OffsetDetokenizer(Detokenizer):
    """Decodes a short window per token and gives out what is new at its end.

    The window begins some tokens before the first one not given out, because a
    token's leading space depends on the token before it. Special tokens that show
    nothing are not kept in it: however many follow each other, text before them is seen.
    """

    def __init__(
        self,
        tokenizer: Any,
        special: frozenset[int],
        options: DetokenizerOptions,
        prompt_token_ids: Sequence[int],
    ) -> None:
        self._decode = decoder(tokenizer, skip_special_tokens=options.skip_special_tokens)
        self._special = special
        self._window, complete = read_context(self._decode, prompt_token_ids, special)
        # Half a character at the end of the prompt belongs to the output that completes it.
        self._given = whole_characters(self._decode(self._window))
        # Tokens since the window's text stopped beginning with what was given out.
        self._rewritten = 0
        before = self._decode(self._window[:complete])
        if not self._given.startswith(before):
            self._given, self._rewritten = before, len(self._window) - complete

    def feed(self, token_id: int) -> str:
        """See `Detokenizer`."""
        if token_id in self._special and not self._decode([token_id]):
            return ""
        self._window.append(token_id)
        text = self._decode(self._window)
        if not text.startswith(self._given):
            self._rewritten += 1
            if text.endswith(REPLACEMENT) and self._rewritten <= UNFINISHED_BYTES:
                return ""  # the character that these tokens begin may still put it right
            # What was given out cannot be taken back; go on from the tokens that rewrote it.
            del self._window[: -self._rewritten]
            self._given = ""
            text = self._decode(self._window)
        self._rewritten = 0
        whole = whole_characters(text)
        new = whole[len(self._given) :]
        self._given = whole
        if len(self._window) > 2 * CONTEXT_TOKENS:
            self._cut(text)
        return new

    def _cut(self, text: str) -> None:
        """Drop the window's beginning, where the rest of its text stays as it is."""
        held = len(text) - len(self._given)
        for tokens in range(CONTEXT_TOKENS, CONTEXT_TOKENS + UNFINISHED_BYTES + 1):
            rest = self._decode(self._window[-tokens:])
            if text.endswith(rest) and len(rest) >= held:
                break
        else:
            if len(self._window) < MAX_WINDOW_TOKENS:
                return
            held = len(rest) - len(whole_characters(rest))
        del self._window[:-tokens]
        self._given = rest[: len(rest) - held]


def decoder(tokenizer: Any, *, skip_special_tokens: bool) -> Callable[[list[int]], str]:
    """Return what decodes token ids, as the engine does.

    vLLM's tokenizer for mistral-common is asked for tokens first, as vLLM itself
    does: its `decode` writes the raw pieces of SentencePiece, and leaves out
    [TOOL_CALLS] with other special tokens. Only tekken's special tokens, where
    they are to be shown, come out right of `decode` alone.
    """
    by_tokens = getattr(tokenizer, "is_spm", False) or (
        skip_special_tokens and getattr(tokenizer, "is_tekken", False)
    )
    if by_tokens:

        def decode(token_ids: list[int]) -> str:
            tokens = tokenizer.convert_ids_to_tokens(
                token_ids, skip_special_tokens=skip_special_tokens
            )
            text: str = tokenizer.convert_tokens_to_string(tokens)
            return text

        return decode
    if hasattr(tokenizer, "clean_up_tokenization_spaces"):
        # A transformers tokenizer: the clean-up takes back spaces that were given out,
        # and vLLM's server, which decodes token by token, never does it.
        return functools.partial(
            tokenizer.decode,
            skip_special_tokens=skip_special_tokens,
            clean_up_tokenization_spaces=False,
        )
    return functools.partial(tokenizer.decode, skip_special_tokens=skip_special_tokens)


def read_context(
    decode: Callable[[list[int]], str], prompt_token_ids: Sequence[int], special: frozenset[int]
) -> tuple[list[int], int]:
    """Return the last tokens of a prompt, and how many of them end with a whole character.

    special: the ids of special tokens; those that show nothing are left out.
    A few more than `CONTEXT_TOKENS` if these begin in the middle of a character and
    hold nothing but such parts.
    """
    shown = (
        token_id
        for token_id in reversed(prompt_token_ids)
        if token_id not in special or decode([token_id])
    )
    last = list(itertools.islice(shown, CONTEXT_TOKENS + UNFINISHED_BYTES))[::-1]
    for tokens in range(CONTEXT_TOKENS, CONTEXT_TOKENS + UNFINISHED_BYTES + 1):
        context = last[-tokens:]
        for complete in range(len(context), 0, -1):
            if not decode(context[:complete]).endswith(REPLACEMENT):
                return context, complete
    return last[-CONTEXT_TOKENS:], 0


def whole_characters(text: str) -> str:
    """Return `text` without the replacement characters that may still become one.

    An unfinished character has at most three bytes, and decoders write one
    replacement for all of them or one for each; further ones are final.
    """
    end = len(text)
    while end and len(text) - end < UNFINISHED_BYTES and text[end - 1] == REPLACEMENT:
        end -= 1
    return text[:end]
