"""Tokenizers of all kinds, with added tokens that make trouble, and texts for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from benchmarks import tokenizer_kinds
from tests.tokenization import real_tokenizers

MARKERS = ("<|start|>", "<|end|>", "[INST]")
TEXT_MARKERS = ("<think>", "</think>")
# Of the regexes of GPT-2, Llama 3 and Qwen; the last looks at what follows.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Whatever a token may do to its neighbours.
TROUBLE = (
    AddedToken("<|left|>", lstrip=True, normalized=False),
    AddedToken("<|right|>", rstrip=True, normalized=False),
    AddedToken("<|both|>", lstrip=True, rstrip=True, normalized=False),
    AddedToken("word", single_word=True, normalized=False),
    AddedToken("<|word|>", single_word=True, normalized=False),
    AddedToken("<|Normal|>", normalized=True),
    AddedToken("<|over|>", normalized=False),
    AddedToken("x<|ov", normalized=False),
    AddedToken("r|>y", normalized=False),
    AddedToken("<|end|>\n\n", normalized=False),
    AddedToken("<|in|>", normalized=False),
    AddedToken("(<|in|>)", normalized=False),
    AddedToken("  ", normalized=False),
    AddedToken("\u0301", normalized=False),
)
PIECES = (
    *MARKERS,
    *real_tokenizers.MARKERS,
    *TEXT_MARKERS,
    *(str(token.content) for token in TROUBLE),
    *(" ", "\n", "a", "B", "é", "e\u0301", "\u0338", "世界", "🙂", "'s", "12", "▁", "<", "|>", "ﬁ"),
    *("hello world", "  two", "x<|over|>y", "<|en", "Ａ", "\u200d", "\t", "."),
)


@cache
def corpus() -> Sequence[str]:
    return [*tokenizer_kinds.texts(), *PIECES]


def trained(
    model: models.Model,
    trainer: type,
    pre_tokenizer: pre_tokenizers.PreTokenizer,
    normalizer: normalizers.Normalizer | None = None,
    **options: Any,
) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(corpus(), trainer(vocab_size=800, show_progress=False, **options))
    return tokenizer


def with_tokens(tokenizer: Tokenizer, *, trouble: bool = False) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in MARKERS[:2]])
    tokenizer.add_tokens(
        [AddedToken(text, normalized=False) for text in (*MARKERS[2:], *TEXT_MARKERS)]
    )
    if trouble:
        tokenizer.add_tokens(list(TROUBLE))
    return tokenizer


def byte_level(pattern: str | None, *, prefix: bool = False, nfc: bool = False) -> Tokenizer:
    steps: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=pattern is None)
    ]
    if pattern is not None:
        steps.insert(0, pre_tokenizers.Split(Regex(pattern), "isolated"))
    tokenizer = trained(
        models.BPE(),
        trainers.BpeTrainer,
        pre_tokenizers.Sequence(steps),
        normalizers.NFC() if nfc else None,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def metaspace(scheme: str, *normalizer: normalizers.Normalizer) -> Tokenizer:
    return trained(
        models.BPE(unk_token="<unk>", fuse_unk=True),
        trainers.BpeTrainer,
        pre_tokenizers.Metaspace(prepend_scheme=scheme),
        normalizers.Sequence(list(normalizer)) if normalizer else None,
        special_tokens=["<unk>"],
    )


def unigram(*normalizer: normalizers.Normalizer) -> Tokenizer:
    tokenizer = trained(
        models.Unigram(),
        trainers.UnigramTrainer,
        pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]
        ),
        normalizers.Sequence(list(normalizer)),
        unk_token="<unk>",
        special_tokens=["<unk>", "<s>", "</s>"],
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return tokenizer


def wordpiece() -> Tokenizer:
    tokenizer = trained(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer,
        pre_tokenizers.BertPreTokenizer(),
        normalizers.BertNormalizer(),
        special_tokens=["[UNK]", "[CLS]", "[SEP]"],
    )
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def word_level() -> Tokenizer:
    return trained(
        models.WordLevel(unk_token="[UNK]"),
        trainers.WordLevelTrainer,
        pre_tokenizers.Sequence(
            [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
        ),
        normalizers.Sequence(
            [normalizers.Strip(), normalizers.Lowercase(), normalizers.StripAccents()]
        ),
        special_tokens=["[UNK]"],
    )


def copy(tokenizer: Tokenizer) -> Tokenizer:
    return Tokenizer.from_str(tokenizer.to_str())


BASES: dict[str, Callable[[], Tokenizer]] = {
    "GPT-2": lambda: byte_level(None),
    "GPT-2 with a prefix": lambda: byte_level(None, prefix=True),
    "Llama 3": lambda: byte_level(LLAMA3),
    "Qwen": lambda: byte_level(GPT2, nfc=True),
    "Llama 2": lambda: copy(tokenizer_kinds.llama()),
    "Gemma": lambda: copy(tokenizer_kinds.gemma()),
    "SentencePiece, prepends first": lambda: metaspace("first"),
    "SentencePiece, prepends always": lambda: metaspace("always", normalizers.NFKC()),
    "SentencePiece, prepends never": lambda: metaspace("never"),
    "T5": lambda: unigram(normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace("  ", " ")),
    "BERT": wordpiece,
    "word level": word_level,
}
REAL: dict[str, Callable[[], Tokenizer]] = {
    "Mistral, tekken": real_tokenizers.tekken,
    "Mistral, SentencePiece": lambda: real_tokenizers.sentencepiece(first=False),
    "Mistral, SentencePiece, first": lambda: real_tokenizers.sentencepiece(first=True),
}
NAMES = [f"{name}{kind}" for name in BASES for kind in ("", ", trouble")] + [*REAL]


@cache
def load(name: str) -> Tokenizer:
    """Return the tokenizer of one of `NAMES`."""
    if name in REAL:
        return REAL[name]()
    base = name.removesuffix(", trouble")
    return with_tokens(BASES[base](), trouble=base != name)
