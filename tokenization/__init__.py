"""Tokenizers and detokenizers, for the worker and the frontend alike.

Users' own tokenizers: what they offer, how they are loaded, and the kit that checks them.
The model's own: its files and chat template. Nothing here imports an engine or Dynamo;
`mistral.py`, which needs mistral-common, is loaded by name.
"""

from __future__ import annotations

from .errors import TokenizerError, TokenizerFailedError, TokenizerLoadError, TokenizerResultError
from .loading import LazyTokenizer, load, split_name
from .model_card import read_tokenizer_config, set_tokenizer_config
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
