"""Tokenizers and detokenizers for both worker and frontend.

For users' own tokenizers: the protocols, their loading, and the checks of their results. For the
model's own: its files and prompts. No module here imports an engine or Dynamo; `mistral.py`, which
needs mistral-common, is loaded by name.
"""

from __future__ import annotations

from .advertised_tokenizer import read_tokenizer_config, set_tokenizer_config
from .errors import TokenizerError, TokenizerFailedError, TokenizerLoadError, TokenizerResultError
from .loading import LazyTokenizer, load, split_name
from .protocol import (
    BaseTokenizer,
    DynamoTokenizer,
    StreamingTokenizer,
    TemplateTokenizer,
    TokenizerProtocol,
)

__all__ = [
    "BaseTokenizer",
    "DynamoTokenizer",
    "LazyTokenizer",
    "StreamingTokenizer",
    "TemplateTokenizer",
    "TokenizerError",
    "TokenizerFailedError",
    "TokenizerLoadError",
    "TokenizerProtocol",
    "TokenizerResultError",
    "load",
    "read_tokenizer_config",
    "set_tokenizer_config",
    "split_name",
]
