"""Selects the fastest detokenizer whose text equals that of the tokenizer's `decode`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

from tokenizers import Tokenizer

from .agreement import find_difference
from .base import DetokenizerFactory, SupportsDecode
from .byte_level import ByteLevelDetokenizers
from .offsets import OffsetDetokenizers
from .pieces import read_decoder
from .sentencepiece import SentencePieceDetokenizers, parse_piece_rules
from .stream import StreamDetokenizers
from .tekken import TekkenDetokenizers
from .vocabulary import fast_tokenizer

logger = logging.getLogger(__name__)


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
