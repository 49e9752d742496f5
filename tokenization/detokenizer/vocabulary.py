"""A tokenizer's vocabulary: its special tokens, and the bytes that its pieces stand for."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import cast

from tokenizers import Tokenizer

from ...base.json_types import JsonObject
from ...parsers.linear_parsers import Vocabulary
from .base import SupportsDecode

BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_level_alphabet() -> dict[str, int]:
    """Return GPT-2's alphabet, which writes each byte as one printable character.

    Printable Latin-1 characters stand for themselves, the other bytes follow from U+0100.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + n): byte for n, byte in enumerate(others)
    }


BYTE_LEVEL = _byte_level_alphabet()


def lookup_piece(tokenizer: Tokenizer, token_id: int) -> str | None:
    """Return the token as the vocabulary writes it; None for an unknown id, such as -1."""
    try:
        return tokenizer.id_to_token(token_id)
    except OverflowError:
        return None  # negative, or more than 32 bits


def read_decoder(tokenizer: Tokenizer) -> JsonObject:
    """Return the "decoder" of a tokenizer.json; {} if the tokenizer has no decoder."""
    decoder: JsonObject = (
        json.loads(tokenizer.decoder.__getstate__()) if tokenizer.decoder is not None else {}
    )
    return decoder


def piece_bytes(piece: str, decoder: JsonObject) -> bytes:
    """Return the bytes that `piece` stands for.

    decoder: the "decoder" of a tokenizer.json, which defines how pieces write bytes.
    """
    steps = {step["type"]: step for step in decoder_steps(decoder)}
    if "ByteLevel" in steps:
        return byte_level_bytes(piece)
    if "ByteFallback" in steps and (byte := BYTE_PIECE.fullmatch(piece)):
        return bytes.fromhex(byte[1])
    if "Metaspace" in steps or "ByteFallback" in steps:
        return piece.replace("\u2581", " ").encode()
    if "WordPiece" in steps:
        prefix: str = steps["WordPiece"].get("prefix", "##")
        return piece.removeprefix(prefix).encode()
    return piece.encode()


def decoder_steps(decoder: JsonObject) -> list[JsonObject]:
    """Return the steps of a "Sequence", or the decoder itself as the only step."""
    return list(decoder.get("decoders", [decoder] if decoder else []))


def byte_level_bytes(piece: str) -> bytes:
    """Return the bytes that `piece` writes in GPT-2's alphabet."""
    try:
        return bytes([BYTE_LEVEL[char] for char in piece])
    except KeyError:
        return piece.encode()  # an added token, which the vocabulary writes as plain text


def read_vocabulary(tokenizer: object) -> Vocabulary:
    """Return the vocabulary of `tokenizer` in the form that parsers need.

    Only added tokens count as markers: an ordinary token with the same text is just one
    of many ways to write that text.

    tokenizer: a `tokenizers.Tokenizer`, a transformers tokenizer, or any object with
        `all_special_ids` and `decode(token_ids, skip_special_tokens=...)`.
    """
    decoding = cast("SupportsDecode", tokenizer)

    def decode(token_ids: Sequence[int]) -> str:
        return str(decoding.decode(list(token_ids), skip_special_tokens=False))

    if (fast := fast_tokenizer(tokenizer)) is not None:
        added = fast.get_added_tokens_decoder()
        ids = {token.content: token_id for token_id, token in added.items()}
        return Vocabulary(ids, special_ids(fast), decode)
    special = special_ids(tokenizer)
    return Vocabulary({decode([token_id]): token_id for token_id in special}, special, decode)


def fast_tokenizer(tokenizer: object) -> Tokenizer | None:
    """Return the `tokenizers.Tokenizer` that `tokenizer` is or has, or None.

    transformers' fast tokenizers have it as `backend_tokenizer`, subclasses of `BaseTokenizer` may
    keep it as `_tokenizer`.
    """
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    inner = getattr(tokenizer, "backend_tokenizer", None) or getattr(tokenizer, "_tokenizer", None)
    return inner if isinstance(inner, Tokenizer) else None


def special_ids(tokenizer: object) -> frozenset[int]:
    """Return the tokens that `skip_special_tokens` hides.

    Empty for an object without `all_special_ids`.
    """
    if isinstance(tokenizer, Tokenizer):
        added = tokenizer.get_added_tokens_decoder()
        return frozenset(token_id for token_id, token in added.items() if token.special)
    return frozenset(getattr(tokenizer, "all_special_ids", ()))
