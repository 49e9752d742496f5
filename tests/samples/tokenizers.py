"""Tokenizers that have the markers of a family as single tokens."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from openai_harmony import HarmonyEncodingName, load_harmony_encoding
from transformers import AddedToken, AutoTokenizer

from tests.samples.sample import Sample

MODEL = Path(__file__).parents[2] / "examples" / "tiny_model"
MISTRAL_FILES = {"tekken": "tekken_240911.json", "sentencepiece": "mistral_instruct_tokenizer_240323.model.v3"}
HARMONY_SPECIAL = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>")


@cache
def bpe(markers: tuple[str, ...] = (), special: tuple[str, ...] = ()) -> Any:
    """Return the example model's tokenizer with more tokens."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    tokenizer.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in markers])
    tokenizer.add_tokens([AddedToken(marker, special=True, normalized=False) for marker in special], special_tokens=True)
    return tokenizer


@cache
def mistral(kind: str) -> Any:
    """Return vLLM's wrapper of one of mistral-common's own tokenizers."""
    from vllm.tokenizers.mistral import MistralTokenizer

    (package,) = importlib.util.find_spec("mistral_common").submodule_search_locations
    return MistralTokenizer.from_pretrained(str(Path(package) / "data" / MISTRAL_FILES[kind]))


class HarmonyTokenizer:
    """The tokenizer of gpt-oss, of which openai-harmony brings the vocabulary."""

    def __init__(self) -> None:
        self._encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
        self._special = {self.encode(token)[0]: token for token in HARMONY_SPECIAL}
        self.all_special_ids = list(self._special)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return the token ids of `text`, its markers as single tokens."""
        return list(self._encoding.encode(text, allowed_special="all"))

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text, U+FFFD where it begins or ends in half a character."""
        shown = [token for token in token_ids if not (skip_special_tokens and token in self._special)]
        return self._encoding.decode(shown)

    def get_vocab(self) -> dict[str, int]:
        """Return the markers; nothing asks for more."""
        return {token: token_id for token_id, token in self._special.items()}


@cache
def harmony() -> HarmonyTokenizer:
    """Return gpt-oss's tokenizer."""
    return HarmonyTokenizer()


def tokenizer_of(sample: Sample) -> Any:
    """Return the tokenizer that `sample` is written for."""
    if sample.tokenizer == "harmony":
        return harmony()
    if sample.tokenizer in MISTRAL_FILES:
        return mistral(sample.tokenizer)
    return bpe(sample.markers, sample.special)
