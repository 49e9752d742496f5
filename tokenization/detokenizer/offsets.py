"""Detokenizer for tokenizers that only have `decode()`: mistral-common's, custom classes.

For all other fast tokenizers there is `tokenizers.decoders.DecodeStream`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from typing_extensions import override

from .base import (
    REPLACEMENT,
    Detokenizer,
    DetokenizerFactory,
    DetokenizerOptions,
    SupportsDecode,
    remove_spaces,
)
from .vocabulary import lookup_piece, piece_bytes, read_decoder, special_ids

UNFINISHED_BYTES = 3
# Enough for every known rule by which a token's text depends on the tokens before it.
CONTEXT_TOKENS = 8
# Where the rest still decodes to the same text, a window is shortened; at this length, always.
MAX_WINDOW_TOKENS = 32


class OffsetDetokenizers(DetokenizerFactory):
    """Factory for any object with `decode`."""

    def __init__(self, tokenizer: SupportsDecode) -> None:
        self._tokenizer = tokenizer
        self._special = special_ids(tokenizer)

    @override
    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        return OffsetDetokenizer(self._tokenizer, self._special, options, prompt_token_ids)

    @override
    def token_bytes(self, token_id: int) -> bytes:
        return self._tokenizer.decode([token_id], skip_special_tokens=False).encode()


class OffsetDetokenizer(Detokenizer):
    """Decodes a short window of tokens at each step and returns the new text at its end.

    The window begins some tokens before the first token without returned text, because a
    token's leading space depends on the token before it. The window omits hidden special
    tokens: a row of them would push out the text before them.
    """

    def __init__(
        self,
        tokenizer: SupportsDecode,
        special: frozenset[int],
        options: DetokenizerOptions,
        prompt_token_ids: Sequence[int],
    ) -> None:
        self._decode = decode_function(tokenizer, skip_special_tokens=options.skip_special_tokens)
        self._special = special
        self._window, complete = select_context(self._decode, prompt_token_ids, special)
        # A character that the prompt leaves unfinished belongs to the output.
        self._given = drop_unfinished_character(self._decode(self._window))
        # Number of tokens since the window's text stopped beginning with the returned text.
        self._rewritten = 0
        before = self._decode(self._window[:complete])
        if not self._given.startswith(before):
            self._given, self._rewritten = before, len(self._window) - complete

    @override
    def feed(self, token_id: int) -> str:
        if token_id in self._special and not self._decode([token_id]):
            return ""
        self._window.append(token_id)
        text = self._decode(self._window)
        if not text.startswith(self._given):
            self._rewritten += 1
            if text.endswith(REPLACEMENT) and self._rewritten <= UNFINISHED_BYTES:
                return ""  # once these tokens form a character, the text may match again
            # Returned text cannot be taken back; continue from the tokens that changed it.
            del self._window[: -self._rewritten]
            self._given = ""
            text = self._decode(self._window)
        self._rewritten = 0
        whole = drop_unfinished_character(text)
        new = whole[len(self._given) :]
        self._given = whole
        if len(self._window) > 2 * CONTEXT_TOKENS:
            self._cut(text)
        return new

    def _cut(self, text: str) -> None:
        """Drop the window's beginning if that leaves the text of the rest unchanged."""
        held = len(text) - len(self._given)
        for tokens in range(CONTEXT_TOKENS, CONTEXT_TOKENS + UNFINISHED_BYTES + 1):
            rest = self._decode(self._window[-tokens:])
            if text.endswith(rest) and len(rest) >= held:
                break
        else:
            if len(self._window) < MAX_WINDOW_TOKENS:
                return
            held = len(rest) - len(drop_unfinished_character(rest))
        del self._window[:-tokens]
        self._given = rest[: len(rest) - held]


class TransformersTokenizer(Protocol):
    """A tokenizer of transformers."""

    def decode(
        self,
        token_ids: list[int],
        /,
        *,
        skip_special_tokens: bool,
        clean_up_tokenization_spaces: bool,
    ) -> str:
        """Return the text of `token_ids`."""


class SupportsTokens(Protocol):
    """A tokenizer with vLLM's two steps of decoding."""

    def convert_ids_to_tokens(
        self, token_ids: list[int], *, skip_special_tokens: bool
    ) -> list[str] | list[bytes]:
        """Return the pieces of `token_ids`."""

    def convert_tokens_to_string(self, tokens: list[str] | list[bytes], /) -> str:
        """Return the text of pieces."""


def decode_function(
    tokenizer: SupportsDecode, *, skip_special_tokens: bool
) -> Callable[[list[int]], str]:
    """Return the function that decodes as vLLM's server does.

    vLLM decodes mistral-common's tokenizers in two steps, by pieces. Their `decode` would
    return the raw pieces of SentencePiece, and would hide [TOOL_CALLS] with the other
    special tokens. But shown special tokens of tekken are right with `decode` only.
    """
    by_pieces = getattr(tokenizer, "is_spm", False) or (
        skip_special_tokens and getattr(tokenizer, "is_tekken", False)
    )
    if by_pieces:
        pieces = cast("SupportsTokens", tokenizer)

        def decode(token_ids: list[int]) -> str:
            return pieces.convert_tokens_to_string(
                pieces.convert_ids_to_tokens(token_ids, skip_special_tokens=skip_special_tokens)
            )

        return decode
    if hasattr(tokenizer, "clean_up_tokenization_spaces"):
        # A transformers tokenizer. Its clean-up would remove spaces that were already
        # returned; vLLM's server decodes token by token and never cleans up.
        return functools.partial(
            cast("TransformersTokenizer", tokenizer).decode,
            skip_special_tokens=skip_special_tokens,
            clean_up_tokenization_spaces=False,
        )
    return functools.partial(tokenizer.decode, skip_special_tokens=skip_special_tokens)


def select_context(
    decode: Callable[[list[int]], str], prompt_token_ids: Sequence[int], special: frozenset[int]
) -> tuple[list[int], int]:
    """Return the last tokens of a prompt, and how many of them form whole characters.

    special: the ids of special tokens; those without text are omitted.
    There are `CONTEXT_TOKENS` tokens, or up to `UNFINISHED_BYTES` more if those begin within a
    character and no prefix of them ends with a whole one.
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


def drop_unfinished_character(text: str) -> str:
    """Return `text` without final replacement characters that may become a character.

    An unfinished character has at most three bytes. Decoders write one U+FFFD for all of
    them or one for each; any further U+FFFD is final.
    """
    end = len(text)
    while end and len(text) - end < UNFINISHED_BYTES and text[end - 1] == REPLACEMENT:
        end -= 1
    return text[:end]


# A character has at most 4 bytes, so a longer run without text never becomes a character,
# and DecodeStream would decode the whole run again for each token.
MAX_HELD_TOKENS = 8


class StreamDetokenizers(DetokenizerFactory):
    """Factory for any `tokenizers.Tokenizer`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._added = {
            token_id: token.content
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
        }
        self._special = special_ids(tokenizer)
        self._decoder = read_decoder(tokenizer)

    @override
    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        stream = StreamDetokenizer(self._tokenizer, self._special, options, prompt_token_ids)
        return remove_spaces(stream, options, self._added)

    @override
    def token_bytes(self, token_id: int) -> bytes:
        if (content := self._added.get(token_id)) is not None:
            return content.encode()
        piece = lookup_piece(self._tokenizer, token_id)
        return b"" if piece is None else piece_bytes(piece, self._decoder)


class StreamDetokenizer(Detokenizer):
    """Steps a `DecodeStream`; switches to offsets where the stream fails or gets stuck."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        special: frozenset[int],
        options: DetokenizerOptions,
        prompt_token_ids: Sequence[int],
    ) -> None:
        self._tokenizer = tokenizer
        self._special = special
        self._options = options
        self._skip = options.skip_special_tokens
        self._fallback: OffsetDetokenizer | None = None
        decode = decode_function(tokenizer, skip_special_tokens=self._skip)
        context, complete = select_context(decode, prompt_token_ids, special)
        # A DecodeStream that starts after half a character returns all of its start
        # (vllm-project/vllm 48853), so the rest of the prompt is fed to it instead.
        self._stream = DecodeStream(ids=context[:complete], skip_special_tokens=self._skip)
        # The tokens since the last text, and those of the last text; the fallback needs both.
        self._held: list[int] = []
        self._before = context[:complete]
        for token_id in context[complete:]:
            self.feed(token_id)

    @override
    def feed(self, token_id: int) -> str:
        if self._fallback is not None:
            return self._fallback.feed(token_id)
        self._held.append(token_id)
        try:
            text = self._stream.step(self._tokenizer, token_id)
        except (OverflowError, TypeError):
            self._held.pop()
            return ""  # an invalid id (negative, more than 32 bits) has no text
        except Exception as error:
            # The library raises a bare Exception if a decoder changes text already returned.
            if not str(error).startswith("Invalid prefix encountered"):
                raise
            return self._fall_back()
        if text is None:
            return "" if len(self._held) < MAX_HELD_TOKENS else self._fall_back()
        self._before, self._held = self._held, []
        return text

    def _fall_back(self) -> str:
        """Switch to offsets, and return the text of the held tokens."""
        self._fallback = OffsetDetokenizer(
            self._tokenizer, self._special, self._options, self._before
        )
        return self._fallback.feed_all(self._held)
