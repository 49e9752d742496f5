"""Tokenizers of the user's own: what they offer, how they are loaded, and the kit that checks them.

Nothing here imports an engine or Dynamo; `mistral.py`, which needs mistral-common, is loaded by name.
"""

from __future__ import annotations

from .errors import TokenizerError, TokenizerFailedError, TokenizerLoadError, TokenizerResultError
from .loading import LazyTokenizer, load, split_name
from .protocol import (
    BaseTokenizer,
    PromptTokenizer,
    StreamingTokenizer,
    TemplateTokenizer,
    Tokenizer,
)

__all__ = [
    "BaseTokenizer",
    "LazyTokenizer",
    "PromptTokenizer",
    "StreamingTokenizer",
    "TemplateTokenizer",
    "Tokenizer",
    "TokenizerError",
    "TokenizerFailedError",
    "TokenizerLoadError",
    "TokenizerResultError",
    "load",
    "split_name",
]
