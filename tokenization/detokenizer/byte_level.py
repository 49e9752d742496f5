"""Detokenizer for byte-level BPE: Llama 3, Qwen, DeepSeek, gpt-oss.

The vocabulary writes bytes in GPT-2's alphabet; a table maps tokens to text or bytes.
"""

from __future__ import annotations

import codecs

from typing_extensions import override

from .pieces import byte_level_bytes, lookup_piece
from .table import NO_TEXTS, Piece, PieceTable, TableDetokenizer, TableDetokenizers


class ByteLevelDetokenizers(TableDetokenizers):
    """Factory for fast tokenizers whose only decoder is `ByteLevel`."""

    @override
    def build(self, table: PieceTable, *, at_start: bool) -> ByteLevelDetokenizer:
        return ByteLevelDetokenizer(table)

    @override
    def piece(self, token_id: int) -> Piece:
        piece = lookup_piece(self._tokenizer, token_id)
        if piece is None:
            return b""
        content = byte_level_bytes(piece)
        try:
            return content.decode()
        except UnicodeDecodeError:
            return content


class ByteLevelDetokenizer(TableDetokenizer):
    """Joins bytes to characters; each run of invalid bytes becomes U+FFFD at once."""

    def __init__(self, table: PieceTable) -> None:
        super().__init__(table)
        self._pending = b""  # the bytes of an unfinished character

    @override
    def _feed(self, token_id: int) -> str:
        piece = self._table[token_id]
        content = self._pending + (piece.encode() if isinstance(piece, str) else piece)
        text, used = codecs.utf_8_decode(content, "replace")
        if used == len(content):
            self._pending, self._texts = b"", self._table.texts
        else:
            self._pending, self._texts = content[used:], NO_TEXTS
        return text
