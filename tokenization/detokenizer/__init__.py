"""Converts token ids to text incrementally. `detokenizers(tokenizer)` picks an implementation."""

from .base import Detokenizer, DetokenizerFactory, DetokenizerOptions, SupportsDecode
from .detokenizer_selection import detokenizers
from .vocabulary import read_vocabulary

__all__ = [
    "Detokenizer",
    "DetokenizerFactory",
    "DetokenizerOptions",
    "SupportsDecode",
    "detokenizers",
    "read_vocabulary",
]
