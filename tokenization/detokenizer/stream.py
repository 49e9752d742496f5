"""Detokenizer for all other fast tokenizers, with `tokenizers.decoders.DecodeStream`."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from typing_extensions import override

from .base import Detokenizer, DetokenizerFactory, DetokenizerOptions, remove_spaces
from .offsets import OffsetDetokenizer, decode_function, select_context
from .vocabulary import lookup_piece, piece_bytes, read_decoder, special_ids

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

    @override
    def is_special(self, token_id: int) -> bool:
        return token_id in self._special


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
