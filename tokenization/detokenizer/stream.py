"""Fast tokenizers of Hugging Face, through `tokenizers.decoders.DecodeStream`."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from .base import Detokenizer, DetokenizerFactory, DetokenizerOptions
from .offsets import OffsetDetokenizer, decoder, read_context
from .pieces import piece_bytes, read_decoder, read_piece
from .spaces import without_spaces
from .vocabulary import special_ids

# A character has at most 4 bytes, so a longer run without text is no character
# but bytes that never become one; DecodeStream would re-decode the run every step.
MAX_HELD_TOKENS = 8


class StreamDetokenizers(DetokenizerFactory):
    """See `DetokenizerFactory`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._added = {
            token_id: token.content
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
        }
        self._special = special_ids(tokenizer)
        self._decoder = read_decoder(tokenizer)

    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        """See `DetokenizerFactory`."""
        stream = StreamDetokenizer(self._tokenizer, self._special, options, prompt_token_ids)
        return without_spaces(stream, options, self._added)

    def token_bytes(self, token_id: int) -> bytes:
        """See `DetokenizerFactory`."""
        if (content := self._added.get(token_id)) is not None:
            return content.encode()
        piece = read_piece(self._tokenizer, token_id)
        return b"" if piece is None else piece_bytes(piece, self._decoder)

    def is_special(self, token_id: int) -> bool:
        """See `DetokenizerFactory`."""
        return token_id in self._special


class StreamDetokenizer(Detokenizer):
    """See `Detokenizer`."""

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
        decode = decoder(tokenizer, skip_special_tokens=self._skip)
        context, complete = read_context(decode, prompt_token_ids, special)
        # DecodeStream started behind half a character gives out its whole start
        # (vllm-project/vllm 48853), so the rest is fed to it instead.
        self._stream = DecodeStream(ids=context[:complete], skip_special_tokens=self._skip)
        # The tokens since the last text, and those of it: a fallback goes on behind these.
        self._held: list[int] = []
        self._before = context[:complete]
        for token_id in context[complete:]:
            self.feed(token_id)

    def feed(self, token_id: int) -> str:
        """See `Detokenizer`."""
        if self._fallback is not None:
            return self._fallback.feed(token_id)
        self._held.append(token_id)
        try:
            text = self._stream.step(self._tokenizer, token_id)
        except (OverflowError, TypeError):
            self._held.pop()
            return ""  # not an id at all (negative, beyond 32 bits): it has no text
        except Exception as error:
            # The library raises a bare Exception when a decoder rewrites text it has given out already.
            if not str(error).startswith("Invalid prefix encountered"):
                raise
            return self._fall_back()
        if text is None:
            return "" if len(self._held) < MAX_HELD_TOKENS else self._fall_back()
        self._before, self._held = self._held, []
        return text

    def _fall_back(self) -> str:
        """Go on by offsets, and return the text of the tokens held."""
        self._fallback = OffsetDetokenizer(
            self._tokenizer, self._special, self._options, self._before
        )
        return self._fallback.feed_all(self._held)
