"""A custom tokenizer: bytes, two special tokens, and a chat template.

python -m backedge.tokenization.kit examples.my_tokenizer:MyTokenizer --model examples/tiny_model
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from backedge.tokenization import BaseTokenizer

BYTES = 256
START, END = "<|im_start|>", "<|im_end|>"


class MyTokenizer(BaseTokenizer):
    """Ids 0 to 255 are bytes, the next ones the special tokens.

    model_path: not read, as there is no vocabulary.
    """

    special_toks: Sequence[str] = (START, END)
    thread_safe = True  # methods do not change state

    def __init__(self, model_path: str) -> None:
        self._marks = re.compile("(" + "|".join(map(re.escape, self.special_toks)) + ")")

    def encode(self, text: str) -> list[int]:
        """Return the ids of the bytes and special tokens in `text`."""
        token_ids: list[int] = []
        for part in self._marks.split(text):
            special = part in self.special_toks
            token_ids += [BYTES + self.special_toks.index(part)] if special else part.encode()
        return token_ids

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `token_ids`."""
        shown = [token_id for token_id in token_ids if token_id < BYTES or not skip_special_tokens]
        return b"".join(map(self._bytes, shown)).decode("utf-8", "replace")

    def _bytes(self, token_id: int) -> bytes:
        return (
            bytes([token_id]) if token_id < BYTES else self.special_toks[token_id - BYTES].encode()
        )

    def apply_chat_template(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        **kwargs: object,
    ) -> str:
        """Return the prompt. Raises ValueError (HTTP 400) for a request with tools."""
        if tools:
            raise ValueError("this model cannot call tools")
        turns = [f"{START}{message['role']}\n{message['content']}{END}\n" for message in messages]
        return "".join(turns) + f"{START}assistant\n"
