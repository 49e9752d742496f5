"""A model's byte-pair tokenizer as a class of your own; fastai's `Tokenizer` takes it, too.

python -m backedge.tokenization.kit examples.byte_pair_tokenizer:BytePairTokenizer \
    --model examples/tiny_model
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from backedge.tokenization import BaseTokenizer
from tokenizers import Tokenizer


@functools.lru_cache(maxsize=4)
def read_vocabulary(model_path: str) -> Tokenizer:
    """Return the tokenizer of a folder; it is read once per process."""
    return Tokenizer.from_file(f"{model_path}/tokenizer.json")


class BytePairTokenizer(BaseTokenizer):
    """Encodes and decodes by the model's tokenizer.json."""

    thread_safe = True

    def __init__(self, model_path: str) -> None:
        self._tokenizer = read_vocabulary(model_path)
        added = self._tokenizer.get_added_tokens_decoder().values()
        self.special_toks = [token.content for token in added if token.special]

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `token_ids`."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
