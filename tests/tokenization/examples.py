"""Tokenizers that keep the contract, each in its own way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mistral_common
from backedge.tokenization import BaseTokenizer
from backedge.tokenization.mistral import MistralTokenizer
from mistral_common.tokens.tokenizers.base import SpecialTokens
from tokenizers import Tokenizer

from examples.my_tokenizer import MyTokenizer
from tests.support import TINY_MODEL

SHIPPED_TEKKEN = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
MISTRAL_FILES = sorted((Path(mistral_common.__file__).parent / "data").glob("*[0-9n]"))


def write_tekken(folder: Path, version: str) -> Path:
    """Write a tekken.json of `version` into a folder, which is made, and return the folder.

    mistral-common ships files of version 3. Those of later ones differ in the special tokens, and
    in what a request may set.
    """
    content = json.loads(SHIPPED_TEKKEN.read_text(encoding="utf-8"))
    content["config"]["version"] = version
    content["special_tokens"] = [
        {"rank": rank, "token_str": token.value, "is_control": True}
        for rank, token in enumerate(SpecialTokens)
    ]
    if version == "v15":
        efforts = {"type": "enum", "accepts_none": True, "values": ["none", "high"]}
        content["model_settings_builder"] = {"reasoning_effort": {**efforts, "default": "none"}}
    folder.mkdir(exist_ok=True)
    (folder / "tekken.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


class WordTokenizer(BaseTokenizer):
    """Words of a list, with the space before them; everything else as bytes."""

    special_toks = ("<s>", "</s>")
    WORDS = (
        *special_toks,
        *(space + word for word in ("the", "Line", "quick", "brown", "one") for space in ("", " ")),
    )
    BYTES = 256

    def __init__(self, model_path: str, lower: bool = False) -> None:
        # Longest first: a regex takes the first alternative that fits.
        longest = sorted(map(re.escape, self.WORDS), key=len, reverse=True)
        self._pieces = re.compile("|".join([*longest, "."]), re.DOTALL)

    def encode(self, text: str) -> list[int]:
        token_ids: list[int] = []
        for piece in self._pieces.findall(text):
            token_ids += (
                [self.BYTES + self.WORDS.index(piece)] if piece in self.WORDS else piece.encode()
            )
        return token_ids

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        hidden = self.special_toks if skip_special_tokens else ()
        words = [
            self.WORDS[token_id - self.BYTES] if token_id >= self.BYTES else token_id
            for token_id in token_ids
        ]
        pieces = [
            bytes([word]) if isinstance(word, int) else word.encode()
            for word in words
            if word not in hidden
        ]
        return b"".join(pieces).decode(errors="replace")


class FastTokenizer(BaseTokenizer):
    """The example model's tokenizer.json. Named `_tokenizer`, it is detokenized by table."""

    special_toks = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

    def __init__(self, model_path: str) -> None:
        self._tokenizer = Tokenizer.from_file(str(Path(model_path) / "tokenizer.json"))

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            encoding.ids
            for encoding in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ]

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)

    def tokenize(self, messages: list[dict[str, Any]], model: str, tools: Any = None) -> list[int]:
        turns = [
            f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
            for message in messages
        ]
        return self.encode("".join(turns))


class MinimalTokenizer:
    """No base class and nothing that is optional."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return list(map(self.encode, texts))

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return bytes(token_ids).decode(errors="replace")


class StreamsOnly:
    """Offers the streaming contract alone, without a base class."""

    def __init__(self, model_path: str = "model") -> None:
        self._path = model_path

    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        return (re.findall(r"\s*\S+|\s+", text) for text in texts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path!r})"


class WithoutArgument(StreamsOnly):
    """Reads no files of a model."""

    def __init__(self) -> None:
        super().__init__()


@cache
def mistral(file: Path) -> MistralTokenizer:
    return MistralTokenizer(str(file))


BASE: dict[str, Callable[[], Any]] = {
    "bytes": lambda: MyTokenizer(str(TINY_MODEL)),
    "words": lambda: WordTokenizer(str(TINY_MODEL)),
    "fast": lambda: FastTokenizer(str(TINY_MODEL)),
}
GOOD: dict[str, Callable[[], Any]] = {**BASE, "minimal": MinimalTokenizer}
