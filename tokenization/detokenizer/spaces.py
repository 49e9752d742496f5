"""`spaces_between_special_tokens`, in vLLM's sense."""

from __future__ import annotations

from collections.abc import Mapping

from .base import Detokenizer, DetokenizerOptions


def without_spaces(
    detokenizer: Detokenizer, options: DetokenizerOptions, added: Mapping[int, str]
) -> Detokenizer:
    """Return `detokenizer`, with no spaces between special tokens if `options` says so.

    added: the tokenizer's added tokens and their contents.
    """
    if options.skip_special_tokens or options.spaces_between_special_tokens or not added:
        return detokenizer
    return WithoutSpaces(detokenizer, added)


class WithoutSpaces(Detokenizer):
    """Leaves out the space a decoder puts between two special tokens."""

    def __init__(self, inner: Detokenizer, added: Mapping[int, str]) -> None:
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
