"""What the parsers have to know of a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer

from ...parsers.linear_parsers import Vocabulary


def read_vocabulary(tokenizer: Any) -> Vocabulary:
    """Return the vocabulary of `tokenizer`.

    A marker counts as a token only if it is an added one: an ordinary token with
    the same text is one of many ways to write it.

    tokenizer: a `tokenizers.Tokenizer`, a transformers tokenizer, or any object with
        `all_special_ids` and `decode(token_ids, skip_special_tokens=...)`.
    """

    def decode(token_ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(token_ids), skip_special_tokens=False))

    backend = (
        tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "_tokenizer", None)
    )
    if isinstance(backend, Tokenizer):
        added = backend.get_added_tokens_decoder()
        return Vocabulary(
            {token.content: token_id for token_id, token in added.items()},
            special_ids(backend),
            decode,
        )
    special = special_ids(tokenizer)
    return Vocabulary({decode([token_id]): token_id for token_id in special}, special, decode)


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Return the tokens that `skip_special_tokens` leaves out; none of an object without `all_special_ids`."""
    if isinstance(tokenizer, Tokenizer):
        added = tokenizer.get_added_tokens_decoder()
        return frozenset(token_id for token_id, token in added.items() if token.special)
    return frozenset(getattr(tokenizer, "all_special_ids", ()))
