"""The bytes that a piece of a vocabulary stands for."""

from __future__ import annotations

import json
import re

from tokenizers import Tokenizer

from ...base.json_types import JsonObject

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
