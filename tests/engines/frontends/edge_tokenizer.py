"""Tokenizers of a user's own that are the example model's, with less and less of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backedge.base.json_types import JsonObject
from backedge.templates.chat_template import ModelPrompts
from backedge.tokenization import BaseTokenizer
from tokenizers import Tokenizer


class Wrapped(BaseTokenizer):
    """The model's tokenizer.json."""

    def __init__(self, model_path: str) -> None:
        self._tokenizer = Tokenizer.from_file(str(Path(model_path) / "tokenizer.json"))

    def encode(self, text: str) -> list[int]:
        """See `DynamoTokenizer`."""
        token_ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return token_ids

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """See `DynamoTokenizer`."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
        return text


def create(model_path: str) -> Wrapped:
    """Stand in place of a class."""
    return Wrapped(model_path)


class PromptsOnly:
    """Neither encodes nor decodes text."""

    def __init__(self, model_path: str) -> None:
        self._files = ModelPrompts(model_path)

    def tokenize(
        self,
        messages: list[JsonObject],
        model: str,
        tools: list[JsonObject] | None = None,
        **template_kwargs: Any,
    ) -> list[int]:
        """See `TokenizerProtocol`."""
        return self._files.prompt_token_ids(messages, tools, **template_kwargs)
