"""A tokenizer of a user's own: the example model's, without a template of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from backedge.tokenization import BaseTokenizer
from tokenizers import Tokenizer


class Wrapped(BaseTokenizer):
    """The model's tokenizer.json."""

    def __init__(self, model_path: str) -> None:
        self._tokenizer = Tokenizer.from_file(str(Path(model_path) / "tokenizer.json"))

    def encode(self, text: str) -> list[int]:
        """See `Tokenizer`."""
        token_ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return token_ids

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """See `Tokenizer`."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
        return text
