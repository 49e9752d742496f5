"""Tokenizers that have a family's markers as single tokens."""

from __future__ import annotations

import re
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import mistral_common
from mistral_common.protocol.instruct.validator import ValidationMode
from openai_harmony import HarmonyEncodingName, load_harmony_encoding
from transformers import AddedToken, AutoTokenizer
from transformers.tokenization_mistral_common import MistralCommonBackend

from .sample import HARMONY_SPECIAL, Sample

MODEL = Path(__file__).parents[2] / "examples" / "tiny_model"
END_OF_TURN = "<|im_end|>"
MISTRAL_FILES = {
    "tekken": "tekken_240911.json",
    "sentencepiece": "mistral_instruct_tokenizer_240323.model.v3",
}


@cache
def bpe(markers: tuple[str, ...] = (), special: tuple[str, ...] = ()) -> Any:
    """Return the example model's tokenizer with more tokens."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    tokenizer.add_tokens(
        [AddedToken(marker, special=False, normalized=False) for marker in markers]
    )
    added = [AddedToken(marker, special=True, normalized=False) for marker in special]
    tokenizer.add_tokens(added, special_tokens=True)
    return tokenizer


@cache
def mistral(kind: str) -> Any:
    """Return vLLM's wrapper of mistral-common's own file for `kind`, a key of MISTRAL_FILES."""
    from vllm.tokenizers.mistral import MistralTokenizer  # late: most users need no engine

    path = Path(mistral_common.__file__).parent / "data" / MISTRAL_FILES[kind]
    return MistralTokenizer(MistralCommonBackend(tokenizer_path=path, mode=ValidationMode.test))


class HarmonyTokenizer:
    """The tokenizer of gpt-oss, with the vocabulary that openai-harmony contains."""

    def __init__(self) -> None:
        self._encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
        self._special = {self.encode(token)[0]: token for token in HARMONY_SPECIAL}
        self.all_special_ids = list(self._special)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return the token ids of `text`, with each marker as one token."""
        return list(self._encoding.encode(text, allowed_special="all"))

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text, with U+FFFD for half a character at its beginning or end."""
        shown = [
            token for token in token_ids if not (skip_special_tokens and token in self._special)
        ]
        text: str = self._encoding.decode(shown)
        return text

    def get_vocab(self) -> dict[str, int]:
        """Return the markers only, which is all that the parsers look up."""
        return {token: token_id for token_id, token in self._special.items()}


class HunyuanTokenizer:
    """The example model's tokenizer, with the markers cut as in Hunyuan A13B's tokenizer.

    vLLM's reasoning parser for that model has these token ids as literals.
    """

    CUTS: ClassVar[dict[str, tuple[int, ...]]] = {
        "<think>\n": (14023, 771, 397),
        "\n</think>\n<answer>\n": (198, 524, 27963, 397, 27, 9399, 397),
        "\n</answer>": (198, 524, 9399, 29),
    }
    PIECES: ClassVar[dict[int, str]] = {
        27: "<", 29: ">", 198: "\n", 397: ">\n", 524: "</",
        771: "ink", 9399: "answer", 14023: "<th", 27963: "think",
    }  # fmt: skip
    OFFSET = 100_000  # added to the ids of all other tokens

    def __init__(self) -> None:
        self._inner = bpe()
        self.all_special_ids: list[int] = []

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return the token ids of `text`."""
        token_ids: list[int] = []
        for part in re.split("(" + "|".join(map(re.escape, self.CUTS)) + ")", text):
            cut = self.CUTS.get(part)
            token_ids += cut or [self.OFFSET + token_id for token_id in encode(self._inner, part)]
        return token_ids

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text, with U+FFFD for half a character at its beginning or end."""
        parts: list[str] = []
        for own, run in groupby(token_ids, key=lambda token_id: token_id in self.PIECES):
            if own:
                parts += [self.PIECES[token_id] for token_id in run]
            else:
                inner = [token_id - self.OFFSET for token_id in run]
                parts.append(self._inner.decode(inner, skip_special_tokens=skip_special_tokens))
        return "".join(parts)

    def get_vocab(self) -> dict[str, int]:
        """Return the markers' pieces only, which is all that the parser looks up."""
        return {text: token_id for token_id, text in self.PIECES.items()}


@cache
def harmony() -> HarmonyTokenizer:
    """Return gpt-oss's tokenizer."""
    return HarmonyTokenizer()


@cache
def hunyuan() -> HunyuanTokenizer:
    """Return the tokenizer of Hunyuan A13B's markers."""
    return HunyuanTokenizer()


def load_tokenizer(sample: Sample) -> Any:
    """Return the tokenizer that `sample` names, with its markers."""
    if sample.tokenizer == "harmony":
        return harmony()
    if sample.tokenizer == "hunyuan":
        return hunyuan()
    if sample.tokenizer in MISTRAL_FILES:
        return mistral(sample.tokenizer)
    return bpe(sample.markers, sample.special)


def encode(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of `text`, markers as single tokens, without added special tokens."""
    if not hasattr(tokenizer, "instruct"):  # which only mistral-common's has
        return list(tokenizer.encode(text, add_special_tokens=False))
    # mistral-common encodes a marker in a text as plain text.
    before, marker, after = text.partition("[TOOL_CALLS]")
    marker_ids = [tokenizer.get_vocab()[marker]] if marker else []
    return [
        *tokenizer.encode(before, add_special_tokens=False),
        *marker_ids,
        *tokenizer.encode(after, add_special_tokens=False),
    ]


def end_of_turn(tokenizer: Any, sample: Sample) -> list[int]:
    """Return the token that ends the turn; none if `sample.output` already holds it."""
    if sample.tokenizer in ("bpe", "hunyuan"):
        return encode(tokenizer, END_OF_TURN)
    if sample.tokenizer == "harmony":
        return [] if sample.output.endswith("<|call|>") else encode(tokenizer, "<|return|>")
    eos: int | None = getattr(tokenizer, "eos_token_id", None)
    return [] if eos is None else [eos]
