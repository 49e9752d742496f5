"""Checks with samples that a detokenizer gives the same text as the tokenizer's `decode`."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from tokenizers import Tokenizer

from .base import REPLACEMENT, DetokenizerFactory, DetokenizerOptions, SupportsDecode
from .offsets import decode_function
from .pieces import BYTE_LEVEL

SAMPLES, SAMPLE_TOKENS = 64, 12
# Two, three and four bytes in UTF-8: a vocabulary may spell each byte as a token.
CHARACTERS = "é世😀"


def find_difference(factory: DetokenizerFactory, tokenizer: SupportsDecode) -> str | None:
    """Describe the first sample for which `factory` differs from `decode`; None if all agree.

    tokenizer: as for `detokenizers`, but the fast tokenizer inside a transformers tokenizer.
    """
    try:
        for number, token_ids in enumerate(sample_sequences(tokenizer)):
            options = DetokenizerOptions(skip_special_tokens=number % 2 == 0)
            cut = number % (SAMPLE_TOKENS // 2)
            difference = _compare(factory, tokenizer, options, token_ids[:cut], token_ids[cut:])
            if difference is not None:
                return difference
    except Exception as error:  # noqa: BLE001 - third-party code; perhaps impossible tokens
        return f"{type(error).__name__}: {error}"
    return None


def _compare(
    factory: DetokenizerFactory,
    tokenizer: SupportsDecode,
    options: DetokenizerOptions,
    prompt: list[int],
    output: list[int],
) -> str | None:
    decode = decode_function(tokenizer, skip_special_tokens=options.skip_special_tokens)
    before, whole = decode(prompt), decode(prompt + output)
    if before.endswith(REPLACEMENT) or not whole.startswith(before):
        return None  # the texts do not show where the output begins
    text = "".join(map(factory(options, prompt).feed, output))
    expected = whole[len(before) :]
    if is_streamed_text(text, expected):
        return None
    return f"{text!r} instead of {expected!r} for tokens {output} after {prompt}"


def is_streamed_text(text: str, decoded: str) -> bool:
    """Whether a stream may give `text` for tokens that decode to `decoded`.

    A stream may hold back invalid bytes at the end. Before them it may have returned
    characters that `decode` replaces later (see `sentencepiece.py`).
    """
    pattern = re.sub(
        f"{REPLACEMENT}+",
        lambda run: f".{{{int(run.end() < len(run.string))},{len(run[0])}}}",
        re.escape(decoded),
    )
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def sample_sequences(tokenizer: SupportsDecode) -> Iterator[list[int]]:
    """Yield `SAMPLES` sequences of tokens of the vocabulary, the same for each call."""
    token_ids = vocabulary_ids(tokenizer)
    if not token_ids:
        return
    chance = random.Random(0)
    byte_tokens = _byte_tokens(tokenizer)
    for _ in range(SAMPLES):
        sample = chance.choices(token_ids, k=SAMPLE_TOKENS)
        position = chance.randrange(SAMPLE_TOKENS)
        yield sample[:position] + byte_tokens + sample[position:]


def vocabulary_ids(tokenizer: SupportsDecode) -> Sequence[int]:
    """Return the ids to draw samples from; [] for an object without `get_vocab`."""
    if isinstance(tokenizer, Tokenizer):
        return range(tokenizer.get_vocab_size())
    get_vocab = getattr(tokenizer, "get_vocab", None)
    return sorted(get_vocab().values()) if get_vocab is not None else []


def _byte_tokens(tokenizer: SupportsDecode) -> list[int]:
    """Return `CHARACTERS` as byte tokens if a fast tokenizer has them, else []."""
    if not isinstance(tokenizer, Tokenizer):
        return []
    alphabet = {byte: char for char, byte in BYTE_LEVEL.items()}
    for write_byte in (alphabet.__getitem__, "<0x{:02X}>".format):
        token_ids = [tokenizer.token_to_id(write_byte(byte)) for byte in CHARACTERS.encode()]
        if None not in token_ids:
            return [token_id for token_id in token_ids if token_id is not None]
    return []
