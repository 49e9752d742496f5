"""Token ids to text, incrementally. `detokenizers(tokenizer)` picks the way."""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer

from .base import Detokenizer, DetokenizerFactory, DetokenizerOptions
from .offsets import OffsetDetokenizers
from .stream import StreamDetokenizers
from .vocabulary import vocabulary_of

__all__ = ["Detokenizer", "DetokenizerFactory", "DetokenizerOptions", "detokenizers", "vocabulary_of"]


def detokenizers(tokenizer: Any) -> DetokenizerFactory:
    """Return the detokenizer factory for `tokenizer`.

    tokenizer: a `tokenizers.Tokenizer`, a transformers tokenizer, or any object
        with `decode(token_ids, skip_special_tokens=...) -> str`.
    """
    backend = tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "_tokenizer", None)
    if isinstance(backend, Tokenizer):
        return StreamDetokenizers(backend)
    return OffsetDetokenizers(tokenizer)
