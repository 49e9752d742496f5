"""Token ids to text, incrementally. `detokenizers(tokenizer)` picks the way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from tokenizers import Tokenizer

from .agreement import difference
from .base import Detokenizer, DetokenizerFactory, DetokenizerOptions
from .byte_level import ByteLevelDetokenizers
from .offsets import OffsetDetokenizers
from .pieces import read_decoder
from .sentencepiece import SentencePieceDetokenizers, read_spelling
from .stream import StreamDetokenizers
from .tekken import TekkenDetokenizers
from .vocabulary import read_vocabulary

__all__ = [
    "Detokenizer",
    "DetokenizerFactory",
    "DetokenizerOptions",
    "detokenizers",
    "read_vocabulary",
]

logger = logging.getLogger(__name__)

Way = tuple[str, Callable[[], DetokenizerFactory]]


def detokenizers(tokenizer: Any) -> DetokenizerFactory:
    """Return the detokenizer factory for `tokenizer`.

    tokenizer: a `tokenizers.Tokenizer`, a transformers tokenizer, or any object
        with `decode(token_ids, skip_special_tokens=...) -> str`.
    The fastest way that its definition allows is tried on a sample, and left for the
    next one if it does not give what `decode` gives.
    """
    backend = (
        tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "_tokenizer", None)
    )
    if isinstance(backend, Tokenizer):
        # `clean_up_tokenization_spaces` of the transformers tokenizer around it is not
        # asked for: vLLM's server decodes with the backend too, so it streams the spaces.
        tokenizer = backend
    *faster, (last, make) = _ways(tokenizer)
    for way, make_faster in faster:
        factory = make_faster()
        if (found := difference(factory, tokenizer)) is None:
            return factory
        logger.warning(
            "detokenizing by %s would not give what this tokenizer's decode() gives: %s", way, found
        )
    factory = make()
    if (found := difference(factory, tokenizer)) is not None:
        logger.warning(
            "detokenizing by %s, the last way, does not always give what decode() gives: %s",
            last,
            found,
        )
    return factory


def _ways(tokenizer: Any) -> Iterator[Way]:
    """Yield the ways to detokenize, the fastest first, and what to call them in a log."""
    if isinstance(tokenizer, Tokenizer):
        decoder = read_decoder(tokenizer)
        if decoder.get("type") == "ByteLevel":
            yield "a table of byte-level pieces", lambda: ByteLevelDetokenizers(tokenizer)
        elif (spelling := read_spelling(decoder)) is not None:
            yield (
                "a table of SentencePiece pieces",
                lambda: SentencePieceDetokenizers(tokenizer, spelling),
            )
        yield "tokenizers' DecodeStream", lambda: StreamDetokenizers(tokenizer)
    elif getattr(tokenizer, "is_tekken", False):
        yield "a table of tekken's pieces", lambda: TekkenDetokenizers(tokenizer)
    yield "offsets into decode()", lambda: OffsetDetokenizers(tokenizer)
