"""Byte-level BPE (GPT-2's alphabet: Llama 3, Qwen, DeepSeek, gpt-oss): a table from tokens to text or bytes."""

from __future__ import annotations

import codecs

from .pieces import byte_level_bytes, read_piece
from .table import NO_TEXTS, Piece, PieceTable, TableDetokenizer, TableDetokenizers


class ByteLevelDetokenizers(TableDetokenizers):
    """See `DetokenizerFactory`. For tokenizers whose decoder is `ByteLevel` and nothing else."""

    def detokenizer(self, table: PieceTable, *, at_start: bool) -> ByteLevelDetokenizer:
        """See `TableDetokenizers`."""
        return ByteLevelDetokenizer(table)

    def piece(self, token_id: int) -> Piece:
        """See `TableDetokenizers`."""
        piece = read_piece(self._tokenizer, token_id)
        if piece is None:
            return b""
        content = byte_level_bytes(piece)
        try:
            return content.decode()
        except UnicodeDecodeError:
            return content


class ByteLevelDetokenizer(TableDetokenizer):
    """See `Detokenizer`."""

    def __init__(self, table: PieceTable) -> None:
        super().__init__(table)
        self._pending = b""  # the beginning of a character

    def _feed(self, token_id: int) -> str:
        piece = self._table[token_id]
        content = self._pending + (piece.encode() if isinstance(piece, str) else piece)
        text, used = codecs.utf_8_decode(content, "replace")
        if used == len(content):
            self._pending, self._texts = b"", self._table.texts
        else:
            self._pending, self._texts = content[used:], NO_TEXTS
        return text
