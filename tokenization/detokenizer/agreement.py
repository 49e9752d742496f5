"""Whether a way to detokenize gives what the tokenizer's own `decode` gives, tried on a sample."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tokenizers import Tokenizer

from .base import REPLACEMENT, DetokenizerFactory, DetokenizerOptions
from .offsets import decoder
from .pieces import BYTE_LEVEL

SAMPLES, SAMPLE_TOKENS = 64, 12
# Of two, three and four bytes, which vocabularies may spell byte by byte.
CHARACTERS = "é世😀"


def difference(factory: DetokenizerFactory, tokenizer: Any) -> str | None:
    """Return what the first sample gives that is not what `tokenizer` decodes; None if all agree.

    tokenizer: as for `detokenizers`, but of a transformers tokenizer its `tokenizers.Tokenizer`.
    """
    try:
        for number, token_ids in enumerate(samples(tokenizer)):
            options = DetokenizerOptions(skip_special_tokens=number % 2 == 0)
            cut = number % (SAMPLE_TOKENS // 2)
            found = _difference(factory, tokenizer, options, token_ids[:cut], token_ids[cut:])
            if found is not None:
                return found
    except Exception as error:  # noqa: BLE001 - third-party code, asked for tokens that no model may write
        return f"{type(error).__name__}: {error}"
    return None


def _difference(
    factory: DetokenizerFactory,
    tokenizer: Any,
    options: DetokenizerOptions,
    prompt: list[int],
    output: list[int],
) -> str | None:
    decode = decoder(tokenizer, skip_special_tokens=options.skip_special_tokens)
    before, whole = decode(prompt), decode(prompt + output)
    if before.endswith(REPLACEMENT) or not whole.startswith(before):
        return None  # where the output begins is not told by its text
    text = "".join(map(factory(options, prompt).feed, output))
    expected = whole[len(before) :]
    if streams(text, expected):
        return None
    return f"{text!r} instead of {expected!r} for tokens {output} behind {prompt}"


def streams(text: str, whole: str) -> bool:
    """Whether `text` is `whole` as a stream gives it.

    Bytes that are no character may be held back at the end; before them, a stream has
    given out characters that `decode` takes back (see `sentencepiece.py`).
    """
    pattern = re.sub(
        f"{REPLACEMENT}+",
        lambda run: f".{{{int(run.end() < len(run.string))},{len(run[0])}}}",
        re.escape(whole),
    )
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def samples(tokenizer: Any) -> Iterator[list[int]]:
    """Yield sequences of tokens that the vocabulary has."""
    token_ids = vocabulary_ids(tokenizer)
    if not token_ids:
        return
    chance = random.Random(0)
    spell_tools = _spelled(tokenizer)
    for _ in range(SAMPLES):
        sample = chance.choices(token_ids, k=SAMPLE_TOKENS)
        position = chance.randrange(SAMPLE_TOKENS)
        yield sample[:position] + spell_tools + sample[position:]


def vocabulary_ids(tokenizer: Any) -> Sequence[int]:
    """Return the ids that samples are made of; none of an object without `get_vocab`."""
    if isinstance(tokenizer, Tokenizer):
        return range(tokenizer.get_vocab_size())
    get_vocab = getattr(tokenizer, "get_vocab", None)
    return sorted(get_vocab().values()) if get_vocab is not None else []


def _spelled(tokenizer: Any) -> list[int]:
    """Return `CHARACTERS` as byte tokens, if a fast tokenizer has them."""
    if not isinstance(tokenizer, Tokenizer):
        return []
    alphabet = {byte: char for char, byte in BYTE_LEVEL.items()}
    for spelling in (alphabet.__getitem__, "<0x{:02X}>".format):
        token_ids = [tokenizer.token_to_id(spelling(byte)) for byte in CHARACTERS.encode()]
        if None not in token_ids:
            return [token_id for token_id in token_ids if token_id is not None]
    return []
