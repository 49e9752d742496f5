"""What the parsers have to know of a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer

from ...parsers.linear import Vocabulary


def vocabulary_of(tokenizer: Any) -> Vocabulary:
    """Return the vocabulary of `tokenizer`.

    tokenizer: a `tokenizers.Tokenizer`, a transformers tokenizer, or any object with
        `get_vocab() -> dict[str, int]`, `all_special_ids` and `decode(token_ids, skip_special_tokens=...)`.
    """

    def decode(token_ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(token_ids), skip_special_tokens=False))

    backend = tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "_tokenizer", None)
    if isinstance(backend, Tokenizer):
        added = backend.get_added_tokens_decoder()
        special = frozenset(token_id for token_id, token in added.items() if token.special)
        return Vocabulary(backend.get_vocab(), special, decode)
    return Vocabulary(tokenizer.get_vocab(), frozenset(tokenizer.all_special_ids), decode)
