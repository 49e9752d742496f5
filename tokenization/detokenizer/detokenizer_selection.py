"""Selects the fastest detokenizer whose text of some samples equals that of `decode`."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

from tokenizers import Tokenizer

from ...base.log import get_logger
from .base import REPLACEMENT, DetokenizerFactory, DetokenizerOptions, SupportsDecode
from .offsets import OffsetDetokenizers, StreamDetokenizers, decode_function
from .sentencepiece import SentencePieceDetokenizers, parse_piece_rules
from .tables import ByteLevelDetokenizers, TekkenDetokenizers
from .vocabulary import BYTE_LEVEL, fast_tokenizer, read_decoder

logger = get_logger(__name__)

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


def vocabulary_ids(tokenizer: object) -> Sequence[int]:
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


class Candidate(NamedTuple):
    """An implementation that suits a tokenizer's definition. name: for logs."""

    name: str
    build: Callable[[], DetokenizerFactory]


def detokenizers(tokenizer: object) -> DetokenizerFactory:
    """Return the detokenizer factory for `tokenizer`.

    tokenizer: a `tokenizers.Tokenizer`, a transformers tokenizer, or any other object with
        `decode(token_ids, skip_special_tokens=...) -> str`; engines declare no type for it.
    The fastest candidate is tried on a sample of tokens. If its text differs from that of
    `decode`, a warning is logged and the next one is tried. The last one is used in any case.
    """
    # For a transformers tokenizer take the fast tokenizer inside, which ignores
    # `clean_up_tokenization_spaces`: vLLM's server does the same.
    decoding = fast_tokenizer(tokenizer) or cast("SupportsDecode", tokenizer)
    *faster, last = _candidates(decoding)
    for candidate in faster:
        factory = candidate.build()
        if (difference := find_difference(factory, decoding)) is None:
            return factory
        logger.warning(
            "detokenizing with %s would not give the text of this tokenizer's decode(): %s",
            candidate.name,
            difference,
        )
    factory = last.build()
    if (difference := find_difference(factory, decoding)) is not None:
        logger.warning(
            "detokenizing with %s, the last choice, does not always give the text of decode(): %s",
            last.name,
            difference,
        )
    return factory


def _candidates(tokenizer: SupportsDecode) -> Iterator[Candidate]:
    """Yield the possible implementations, the fastest first."""
    if isinstance(tokenizer, Tokenizer):
        decoder = read_decoder(tokenizer)
        if decoder.get("type") == "ByteLevel":
            yield Candidate(
                "a table of byte-level pieces", lambda: ByteLevelDetokenizers(tokenizer)
            )
        elif (rules := parse_piece_rules(decoder)) is not None:
            yield Candidate(
                "a table of SentencePiece pieces",
                lambda: SentencePieceDetokenizers(tokenizer, rules),
            )
        yield Candidate("tokenizers' DecodeStream", lambda: StreamDetokenizers(tokenizer))
    elif getattr(tokenizer, "is_tekken", False):
        yield Candidate("a table of tekken's pieces", lambda: TekkenDetokenizers(tokenizer))
    yield Candidate("offsets into decode()", lambda: OffsetDetokenizers(tokenizer))
