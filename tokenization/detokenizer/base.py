"""The detokenizer's interface, and what it requires of a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from typing_extensions import override

# Decoders write this character for bytes that are not valid UTF-8.
REPLACEMENT = "\ufffd"


class SupportsDecode(Protocol):
    """The part of a tokenizer that every detokenizer needs."""

    def decode(self, token_ids: list[int], /, *, skip_special_tokens: bool) -> str:
        """Return the text of `token_ids`, shape (n,), n >= 0."""


class DetokenizerOptions(msgspec.Struct, frozen=True):
    """How special tokens appear in the text, with vLLM's names and meanings.

    spaces_between_special_tokens: matters only if special tokens are shown.
    """

    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True


class Detokenizer(Protocol):
    """Converts the output tokens of one choice to text, token by token.

    However the tokens are split into calls, the returned texts add up to what the
    tokenizer's `decode()` adds after the prompt, with two exceptions:

    - An unfinished character at the end is not returned, not even as U+FFFD.
    - `decode()` may replace a character with U+FFFD once invalid bytes follow it (a run
      of byte pieces, see `sentencepiece.py`). A detokenizer has already returned the
      character by then, so it stays.
    """

    def feed(self, token_id: int) -> str:
        """Return the text that `token_id` completes; "" in the middle of a character."""

    def feed_all(self, token_ids: Sequence[int]) -> str:
        """Return the concatenated results of `feed` for each of `token_ids`."""
        return "".join(map(self.feed, token_ids))


class DetokenizerFactory(Protocol):
    """Creates a detokenizer for each choice; built once per tokenizer."""

    _special: frozenset[int] = frozenset()

    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        """Return a detokenizer for the tokens that follow `prompt_token_ids`."""

    def token_bytes(self, token_id: int) -> bytes:
        """Return the UTF-8 bytes of one token, which may be part of a character."""

    def read(self, token_ids: Sequence[int], errors: str = "replace") -> str:
        """Return the text of tokens, special ones included. errors: as for `bytes.decode`."""
        return b"".join(map(self.token_bytes, token_ids)).decode("utf-8", errors)

    def is_special(self, token_id: int) -> bool:
        """Whether `skip_special_tokens` hides this token."""
        return token_id in self._special


def remove_spaces(
    detokenizer: Detokenizer, options: DetokenizerOptions, added: Mapping[int, str]
) -> Detokenizer:
    """Wrap `detokenizer` in a `SpaceRemover` if `options` ask for one.

    added: the contents of the tokenizer's added tokens, by id.
    """
    if options.skip_special_tokens or options.spaces_between_special_tokens or not added:
        return detokenizer
    return SpaceRemover(detokenizer, added)


class SpaceRemover(Detokenizer):
    """Removes the space that a decoder puts between two added tokens, as vLLM does."""

    def __init__(self, inner: Detokenizer, added: Mapping[int, str]) -> None:
        self._inner = inner
        self._added = added
        self._after_added = False

    @override
    def feed(self, token_id: int) -> str:
        text = self._inner.feed(token_id)
        content = self._added.get(token_id)
        if content is not None and self._after_added:
            text = content
        self._after_added = content is not None
        return text
