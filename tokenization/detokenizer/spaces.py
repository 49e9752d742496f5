"""`spaces_between_special_tokens=False`, as in vLLM."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from .base import Detokenizer, DetokenizerOptions


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
    """Removes the space that a decoder puts between two added tokens."""

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
