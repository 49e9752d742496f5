"""Tokenizers of every kind that has a detokenizer, with the detokenizer each one gets."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from backedge.tokenization.detokenizer.offsets import OffsetDetokenizers, StreamDetokenizers
from backedge.tokenization.detokenizer.sentencepiece import SentencePieceDetokenizers
from backedge.tokenization.detokenizer.tables import ByteLevelDetokenizers, TekkenDetokenizers
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from . import answers
from .samples.tokenizers import mistral

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPECIAL = ["<unk>", "<s>", "</s>"]
VOCABULARY_SIZE = 1_000
# Rarer characters are spelled in bytes.
ALPHABET_SIZE = 80


@cache
def texts() -> list[str]:
    """Return the outputs of the example transcripts."""
    return [transcript.output for transcript in answers.transcripts().values()]


byte_level = cache(answers.tokenizer)


@cache
def trained_bpe() -> dict[str, Any]:
    """Return a BPE model of the transcripts' words, as in a tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE, limit_alphabet=ALPHABET_SIZE, show_progress=False
    )
    tokenizer.train_from_iterator(texts(), trainer)
    model: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    return model


def sentencepiece_bpe(decoder: decoders.Decoder, *, prepends: bool = True) -> Tokenizer:
    """Return a tokenizer like Llama 2's, whose vocabulary begins with special tokens and bytes."""
    model = trained_bpe()
    pieces = [*SPECIAL, *BYTES, *sorted(model["vocab"], key=model["vocab"].__getitem__)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    prefix = [normalizers.Prepend("▁")] if prepends else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoder
    return with_added(tokenizer)


def with_added(tokenizer: Tokenizer) -> Tokenizer:
    """Add special tokens, ordinary markers, and a token that is spelled with spaces."""
    tokenizer.add_special_tokens([*SPECIAL, "<|end|>"])
    tokenizer.add_tokens(
        [AddedToken(text, normalized=False) for text in ("<think>", "</think>", "  ", "▁▁▁<x>")]
    )
    return tokenizer


@cache
def llama() -> Tokenizer:
    """Return Llama 2's form."""
    steps = [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    return sentencepiece_bpe(decoders.Sequence(steps))


@cache
def llama_metaspace() -> Tokenizer:
    """Return the form whose first token loses its marks."""
    return sentencepiece_bpe(
        decoders.Sequence([decoders.Metaspace(), decoders.ByteFallback(), decoders.Fuse()])
    )


@cache
def gemma() -> Tokenizer:
    """Return the form that keeps a leading space."""
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return sentencepiece_bpe(decoders.Sequence(steps), prepends=False)


@cache
def unigram() -> Tokenizer:
    """Return T5's form."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY_SIZE, unk_token="<unk>", special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(texts(), trainer)
    return with_added(tokenizer)


@cache
def wordpiece() -> Tokenizer:
    """Return BERT's form."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(),
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY_SIZE, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(texts(), trainer)
    return with_added(tokenizer)


class DecodeOnly:
    """A tokenizer with `decode` only, and its vocabulary for the check at the start."""

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = inner
        added = inner.get_added_tokens_decoder()
        self.all_special_ids = [token_id for token_id, token in added.items() if token.special]

    def get_vocab(self) -> dict[str, int]:
        """Return the ids by their pieces."""
        return self.inner.get_vocab()

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `token_ids`."""
        return self.inner.decode(list(token_ids), skip_special_tokens=skip_special_tokens)


class Kind:
    """One tokenizer, and the class of the detokenizer factory that `detokenizers` picks for it."""

    def __init__(self, factory: type, tokenizer: Callable[[], Any]) -> None:
        self.factory = factory
        self.tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, with no special tokens added."""
        tokenizer = self.tokenizer()
        if isinstance(tokenizer, DecodeOnly):
            tokenizer = tokenizer.inner
        if isinstance(tokenizer, Tokenizer):
            return list(tokenizer.encode(text, add_special_tokens=False).ids)
        return list(tokenizer.encode(text, add_special_tokens=False))


KINDS = {
    "byte level": Kind(ByteLevelDetokenizers, byte_level),
    "llama": Kind(SentencePieceDetokenizers, llama),
    "llama metaspace": Kind(SentencePieceDetokenizers, llama_metaspace),
    "gemma": Kind(SentencePieceDetokenizers, gemma),
    "unigram": Kind(SentencePieceDetokenizers, unigram),
    "wordpiece": Kind(StreamDetokenizers, wordpiece),
    "tekken": Kind(TekkenDetokenizers, lambda: mistral("tekken")),
    "mistral sentencepiece": Kind(OffsetDetokenizers, lambda: mistral("sentencepiece")),
    "custom byte level": Kind(OffsetDetokenizers, cache(lambda: DecodeOnly(byte_level()))),
    "custom sentencepiece": Kind(OffsetDetokenizers, cache(lambda: DecodeOnly(llama()))),
}
