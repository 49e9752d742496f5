"""The bytes behind one piece of a vocabulary."""

from __future__ import annotations

import json
import re
from typing import Any

from tokenizers import Tokenizer

BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_level_alphabet() -> dict[str, int]:
    """Return GPT-2's alphabet: printable characters stand for themselves, the rest follow from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + n): byte for n, byte in enumerate(others)
    }


BYTE_LEVEL = _byte_level_alphabet()


def read_piece(tokenizer: Tokenizer, token_id: int) -> str | None:
    """Return the token as the vocabulary has it; None if it has none, as for -1."""
    try:
        return tokenizer.id_to_token(token_id)
    except OverflowError:
        return None  # negative, or beyond 32 bits


def read_decoder(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the "decoder" of a tokenizer.json; empty if it has none."""
    decoder: dict[str, Any] = (
        json.loads(tokenizer.decoder.__getstate__()) if tokenizer.decoder is not None else {}
    )
    return decoder


def piece_bytes(piece: str, decoder: dict[str, Any]) -> bytes:
    """Return the bytes that `piece` stands for.

    decoder: the "decoder" of a tokenizer.json; it says how pieces spell bytes.
    """
    kinds = {step.get("type"): step for step in [decoder, *decoder.get("decoders", [])]}
    if "ByteLevel" in kinds:
        return byte_level_bytes(piece)
    if "ByteFallback" in kinds and (byte := BYTE_PIECE.fullmatch(piece)):
        return bytes.fromhex(byte[1])
    if "Metaspace" in kinds or "ByteFallback" in kinds:
        return piece.replace("\u2581", " ").encode()
    if "WordPiece" in kinds:
        return piece.removeprefix(kinds["WordPiece"].get("prefix", "##")).encode()
    return piece.encode()


def byte_level_bytes(piece: str) -> bytes:
    """Return the bytes that `piece` spells in GPT-2's alphabet."""
    try:
        return bytes([BYTE_LEVEL[char] for char in piece])
    except KeyError:
        return piece.encode()  # an added token that is not spell_tools in the alphabet
