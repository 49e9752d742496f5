"""Tekken, mistral-common's byte-level BPE, behind vLLM's tokenizer class: a table from tokens to text or bytes."""

from __future__ import annotations

from typing import Any

from .byte_level import ByteLevelDetokenizer
from .offsets import decoder
from .table import Piece, PieceTable, TableDetokenizers


class TekkenDetokenizers(TableDetokenizers):
    """See `DetokenizerFactory`. tokenizer: vLLM's, with mistral-common's `Tekkenizer` in it."""

    def __init__(self, tokenizer: Any) -> None:
        self._tekken = tokenizer.tokenizer
        self._special = frozenset(tokenizer.all_special_ids)
        self._added: dict[int, str] = {}
        self._respelled = False
        # vLLM keeps a few special tokens in the text whatever it is asked, so each is decoded once.
        self._show = decoder(tokenizer, skip_special_tokens=False)
        self._hide = decoder(tokenizer, skip_special_tokens=True)
        self._shown = PieceTable(self.piece, ())
        self._hidden = PieceTable(self._hidden_piece, ())

    def detokenizer(self, table: PieceTable, *, at_start: bool) -> ByteLevelDetokenizer:
        """See `TableDetokenizers`."""
        return ByteLevelDetokenizer(table)

    def piece(self, token_id: int) -> Piece:
        """See `TableDetokenizers`."""
        return self._show([token_id]) if token_id in self._special else self._ordinary(token_id)

    def _hidden_piece(self, token_id: int) -> Piece:
        return self._hide([token_id]) if token_id in self._special else self._ordinary(token_id)

    def _ordinary(self, token_id: int) -> Piece:
        try:
            content: bytes = self._tekken.id_to_byte_piece(token_id)
        except (IndexError, KeyError, ValueError, OverflowError):
            return b""  # no token of this vocabulary
        try:
            return content.decode()
        except UnicodeDecodeError:
            return content
