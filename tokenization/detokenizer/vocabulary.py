"""Reads the parts of a tokenizer's vocabulary that parsers and detokenizers need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tokenizers import Tokenizer

from ...parsers.linear_parsers import Vocabulary
from .base import SupportsDecode


def read_vocabulary(tokenizer: object) -> Vocabulary:
    """Return the vocabulary of `tokenizer` in the form that parsers need.

    Only added tokens count as markers: an ordinary token with the same text is just one
    of many ways to write that text.

    tokenizer: a `tokenizers.Tokenizer`, a transformers tokenizer, or any object with
        `all_special_ids` and `decode(token_ids, skip_special_tokens=...)`.
    """
    decoding = cast("SupportsDecode", tokenizer)

    def decode(token_ids: Sequence[int]) -> str:
        return str(decoding.decode(list(token_ids), skip_special_tokens=False))

    if (fast := fast_tokenizer(tokenizer)) is not None:
        added = fast.get_added_tokens_decoder()
        ids = {token.content: token_id for token_id, token in added.items()}
        return Vocabulary(ids, special_ids(fast), decode)
    special = special_ids(tokenizer)
    return Vocabulary({decode([token_id]): token_id for token_id in special}, special, decode)


def fast_tokenizer(tokenizer: object) -> Tokenizer | None:
    """Return the `tokenizers.Tokenizer` that `tokenizer` is or has, or None.

    transformers' fast tokenizers have it as `backend_tokenizer`, subclasses of `BaseTokenizer` may
    keep it as `_tokenizer`.
    """
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    inner = getattr(tokenizer, "backend_tokenizer", None) or getattr(tokenizer, "_tokenizer", None)
    return inner if isinstance(inner, Tokenizer) else None


def special_ids(tokenizer: object) -> frozenset[int]:
    """Return the tokens that `skip_special_tokens` hides.

    Empty for an object without `all_special_ids`.
    """
    if isinstance(tokenizer, Tokenizer):
        added = tokenizer.get_added_tokens_decoder()
        return frozenset(token_id for token_id, token in added.items() if token.special)
    return frozenset(getattr(tokenizer, "all_special_ids", ()))
