"""Tokenizers and detokenizers for both worker and frontend.

For users' own tokenizers: the protocols, their loading, and the checks of their results. For the
model's own: its files and prompts. No module here imports an engine or Dynamo; `mistral.py`, which
needs mistral-common, is loaded by name.
"""

from __future__ import annotations

from .custom_tokenizer import LazyTokenizer, load, split_name
from .errors import TokenizerError, TokenizerFailedError, TokenizerLoadError, TokenizerResultError
from .protocol import (
    BaseTokenizer,
    DynamoTokenizer,
    StreamingTokenizer,
    TemplateTokenizer,
    TokenizerProtocol,
)
from .tokenizer_selection import (
    TokenizerSelection,
    VllmTokenizer,
    create_tokenizer_from_config,
    create_vllm_tokenizer,
    read_tokenizer_config,
    set_tokenizer_config,
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
    "TokenizerSelection",
    "VllmTokenizer",
    "create_tokenizer_from_config",
    "create_vllm_tokenizer",
    "load",
    "read_tokenizer_config",
    "set_tokenizer_config",
    "split_name",
]
