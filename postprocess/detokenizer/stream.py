"""Fast tokenizers of Hugging Face, through `tokenizers.decoders.DecodeStream`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from .base import Detokenizer, DetokenizerOptions
from .offsets import CONTEXT_TOKENS, REPLACEMENT, OffsetDetokenizer
from .pieces import piece_bytes

# A character has at most 4 bytes, so a longer run without text is no character
# but bytes that never become one; DecodeStream would re-decode the run every step.
MAX_HELD_TOKENS = 8


class StreamDetokenizers:
    """See `DetokenizerFactory`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._added = {token_id: token.content for token_id, token in added.items()}
        self._special = frozenset(token_id for token_id, token in added.items() if token.special)
        self._decoder = json.loads(tokenizer.to_str()).get("decoder") or {}

    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        """See `DetokenizerFactory`."""
        detokenizer: Detokenizer = StreamDetokenizer(self._tokenizer, options, prompt_token_ids)
        if options.skip_special_tokens or options.spaces_between_special_tokens or not self._added:
            return detokenizer
        return WithoutSpaces(detokenizer, self._added)

    def token_bytes(self, token_id: int) -> bytes:
        """See `DetokenizerFactory`."""
        if (content := self._added.get(token_id)) is not None:
            return content.encode()
        piece = self._tokenizer.id_to_token(token_id)
        return b"" if piece is None else piece_bytes(piece, self._decoder)

    def is_special(self, token_id: int) -> bool:
        """See `DetokenizerFactory`."""
        return token_id in self._special


class StreamDetokenizer:
    """See `Detokenizer`."""

    def __init__(self, tokenizer: Tokenizer, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._options = options
        self._skip = options.skip_special_tokens
        self._held: list[int] = []
        self._fallback: OffsetDetokenizer | None = None
        context = list(prompt_token_ids[-CONTEXT_TOKENS:])
        complete = self._complete_length(context)
        self._stream = DecodeStream(ids=context[:complete], skip_special_tokens=self._skip)
        for token_id in context[complete:]:
            self.feed(token_id)

    def feed(self, token_id: int) -> str:
        """See `Detokenizer`."""
        if self._fallback is not None:
            return self._fallback.feed(token_id)
        self._held.append(token_id)
        text = self._step(token_id)
        if text is not None:
            self._held.clear()
            return text
        if len(self._held) < MAX_HELD_TOKENS:
            return ""
        self._fallback = OffsetDetokenizer(self._tokenizer, self._options, ())
        return "".join(map(self._fallback.feed, self._held))

    def _step(self, token_id: int) -> str | None:
        try:
            return self._stream.step(self._tokenizer, token_id)
        except (OverflowError, TypeError):
            # Not an id at all (negative, beyond 32 bits): it has no text.
            return ""
        except Exception as error:
            # The library raises a bare Exception when a decoder rewrites text it
            # has given out already; go on from this token, as vLLM does.
            if not str(error).startswith("Invalid prefix encountered"):
                raise
            self._stream = DecodeStream(skip_special_tokens=self._skip)
            return self._stream.step(self._tokenizer, token_id)

    def _complete_length(self, context: list[int]) -> int:
        """Return how many tokens of `context` end with a whole character.

        DecodeStream started behind half a character gives out its whole start
        (vllm-project/vllm 48853), so the rest is fed to it instead.
        """
        for length in range(len(context), 0, -1):
            if not self._tokenizer.decode(context[:length], skip_special_tokens=self._skip).endswith(REPLACEMENT):
                return length
        return 0


class WithoutSpaces:
    """Leaves out the space a decoder puts between two special tokens."""

    def __init__(self, inner: Detokenizer, added: dict[int, str]) -> None:
        self._inner = inner
        self._added = added
        self._after_added = False

    def feed(self, token_id: int) -> str:
        """See `Detokenizer`."""
        text = self._inner.feed(token_id)
        content = self._added.get(token_id)
        if content is not None and self._after_added:
            text = content
        self._after_added = content is not None
        return text
