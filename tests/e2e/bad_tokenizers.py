"""Tokenizers as users write them; each fails in one way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.engines.frontends.edge_tokenizer import Wrapped


class RaisesAtOnce(Wrapped):
    """Cannot be constructed."""

    def __init__(self, model_path: str) -> None:
        raise OSError(f"no luck with {model_path}")


class EncodesToText(Wrapped):
    """Returns texts where ids are asked for."""

    def encode(self, text: str) -> Any:
        return text.split()


class FailsLater:
    """Raises once, at the thousandth call of `decode`; has no faster method than `decode`."""

    def __init__(self, model_path: str) -> None:
        self._inner = Wrapped(model_path)
        self._calls = 0

    def encode(self, text: str) -> list[int]:
        return self._inner.encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return self._inner.encode_batch(texts)

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        self._calls += 1
        if self._calls == 1000:
            raise RuntimeError("out of luck")
        return self._inner.decode(token_ids, skip_special_tokens)
