"""What a detokenizer is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

# What decoders write for bytes that are no character.
REPLACEMENT = "\ufffd"


class DetokenizerOptions(msgspec.Struct, frozen=True):
    """How special tokens appear in the text, in vLLM's sense of these names.

    spaces_between_special_tokens: matters only where special tokens are shown.
    """

    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True


class Detokenizer(Protocol):
    """Turns the output tokens of one choice into text, piece by piece.

    Fed in any pieces, the texts add up to what the tokenizer's `decode()` gives
    for the whole sequence behind the prompt, less a character that is cut off at
    the end: half a character is never emitted, not even as U+FFFD. Where decode()
    takes back a character because of bytes behind it that are none (a run of byte
    pieces, see `sentencepiece.py`), the character stays: it has been given out.
    """

    def feed(self, token_id: int) -> str:
        """Return the text that `token_id` completes; empty in the middle of a character."""
        ...

    def feed_all(self, token_ids: Sequence[int]) -> str:
        """Return the text that `token_ids` complete together: what `feed` gives for each, joined."""
        return "".join(map(self.feed, token_ids))


class DetokenizerFactory(Protocol):
    """Makes one detokenizer per choice; built once per tokenizer."""

    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        """Return a detokenizer that goes on behind `prompt_token_ids`."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """Return the UTF-8 bytes of one token, which may be part of a character."""
        ...

    def is_special(self, token_id: int) -> bool:
        """Whether `skip_special_tokens` leaves this token out."""
        ...
