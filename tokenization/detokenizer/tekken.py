"""Detokenizer for tekken, mistral-common's byte-level BPE: a table from tokens to text or bytes.

The tokenizer is vLLM's class around mistral-common, or `backedge.tokenization.mistral`.
"""

from __future__ import annotations

from typing import Protocol, cast

from typing_extensions import override

from .base import SupportsDecode
from .byte_level import ByteLevelDetokenizer
from .offsets import decode_function
from .table import Piece, PieceTable, TableDetokenizers


class Tekken(Protocol):
    """mistral-common's `Tekkenizer`."""

    def id_to_byte_piece(self, token_id: int, /) -> bytes:
        """Return the bytes of one token."""
        ...


class TekkenWrapper(SupportsDecode, Protocol):
    """A tokenizer class around a `Tekkenizer`."""

    tokenizer: Tekken
    all_special_ids: list[int]


class TekkenDetokenizers(TableDetokenizers):
    """Factory for tokenizers with `is_tekken` that keep a `Tekkenizer` as `tokenizer`."""

    def __init__(self, tokenizer: SupportsDecode) -> None:
        wrapper = cast("TekkenWrapper", tokenizer)
        self._tekken = wrapper.tokenizer
        self._special = frozenset(wrapper.all_special_ids)
        self._added: dict[int, str] = {}
        self._adds_spaces = False
        # vLLM shows a few special tokens even when told to skip them, so each is decoded once.
        self._show = decode_function(tokenizer, skip_special_tokens=False)
        self._hide = decode_function(tokenizer, skip_special_tokens=True)
        self._shown = PieceTable(self.piece, ())
        self._hidden = PieceTable(self._hidden_piece, ())

    @override
    def build(self, table: PieceTable, *, at_start: bool) -> ByteLevelDetokenizer:
        return ByteLevelDetokenizer(table)

    @override
    def piece(self, token_id: int) -> Piece:
        return self._show([token_id]) if token_id in self._special else self._ordinary(token_id)

    def _hidden_piece(self, token_id: int) -> Piece:
        return self._hide([token_id]) if token_id in self._special else self._ordinary(token_id)

    def _ordinary(self, token_id: int) -> Piece:
        try:
            content = self._tekken.id_to_byte_piece(token_id)
        except (IndexError, KeyError, ValueError, OverflowError):
            return b""  # not a token of this vocabulary
        try:
            return content.decode()
        except UnicodeDecodeError:
            return content
