"""Token ids to text, incrementally. `detokenizers(tokenizer)` picks the way."""

from __future__ import annotations

import json
import logging
import random
from typing import Any

from tokenizers import Tokenizer

from .base import Detokenizer, DetokenizerFactory, DetokenizerOptions
from .byte_level import ByteLevelDetokenizers
from .offsets import REPLACEMENT, OffsetDetokenizers
from .stream import StreamDetokenizers
from .vocabulary import vocabulary_of

__all__ = ["Detokenizer", "DetokenizerFactory", "DetokenizerOptions", "detokenizers", "vocabulary_of"]

logger = logging.getLogger(__name__)

SAMPLES, SAMPLE_TOKENS = 64, 12


def detokenizers(tokenizer: Any) -> DetokenizerFactory:
    """Return the detokenizer factory for `tokenizer`.

    tokenizer: a `tokenizers.Tokenizer`, a transformers tokenizer, or any object
        with `decode(token_ids, skip_special_tokens=...) -> str`.
    The fast way of its decoder's kind is tried on a sample first, and left if it
    does not give what `decode` gives.
    """
    backend = tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        return OffsetDetokenizers(tokenizer)
    if _decoder_type(backend) == "ByteLevel":
        factory = ByteLevelDetokenizers(backend)
        if agrees(factory, backend):
            return factory
        logger.warning("this byte-level tokenizer does not decode as its kind does; going on with the slower way")
    return StreamDetokenizers(backend)


def _decoder_type(tokenizer: Tokenizer) -> str | None:
    if tokenizer.decoder is None:
        return None
    kind: str | None = json.loads(tokenizer.decoder.__getstate__()).get("type")
    return kind


def agrees(factory: DetokenizerFactory, tokenizer: Tokenizer) -> bool:
    """Whether `factory` gives what the tokenizer's own `decode` gives, on random tokens."""
    chance = random.Random(0)
    size = tokenizer.get_vocab_size()
    for sample in range(SAMPLES):
        token_ids = [chance.randrange(size) for _ in range(SAMPLE_TOKENS)]
        options = DetokenizerOptions(skip_special_tokens=sample % 2 == 0)
        detokenizer = factory(options, ())
        text = "".join(map(detokenizer.feed, token_ids))
        whole = tokenizer.decode(token_ids, skip_special_tokens=options.skip_special_tokens)
        # What is cut off at the end is held back.
        if not whole.startswith(text) or whole[len(text) :].strip(REPLACEMENT):
            return False
    return True
