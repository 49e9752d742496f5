"""Detokenizer for SentencePiece as Hugging Face writes it (Llama 2, Mistral, Gemma, T5).

A table maps tokens to text or bytes. Pieces write a space as U+2581 and, with byte
fallback, a character that the vocabulary lacks as its bytes, `<0xE4>` `<0xB8>` `<0x96>`.
Two rules of decode() look at more than one token:

- The text's leading space is dropped: one space of the whole text (`Strip`, the older
  form), or the space marks of the first token (`Metaspace`). Gemma keeps it.
- Neighbouring byte pieces form a run. If a run as a whole is not valid UTF-8, decode()
  writes U+FFFD for every byte of it, even for bytes of valid characters. A stream cannot
  wait for the end of a run, which may never come. So it returns the characters before the
  first invalid byte, then U+FFFD for each further byte up to the end of the run. Its text
  differs from decode() in those first characters only. (`DecodeStream`, and vLLM with it,
  loses the invalid bytes: the piece after the run is an "invalid prefix" to it.)
"""

from __future__ import annotations

import codecs

import msgspec
from tokenizers import Tokenizer
from typing_extensions import override

from ...base.json_types import JsonObject
from .base import REPLACEMENT
from .tables import NO_TEXTS, Piece, PieceTable, TableDetokenizer, TableDetokenizers
from .vocabulary import BYTE_PIECE, decoder_steps, lookup_piece


class PieceRules(msgspec.Struct, frozen=True):
    """How a tokenizer's decoder turns pieces into text.

    replacements: pairs of a string and its replacement, in this order.
    byte_fallback: some pieces are bytes.
    first_token_drops: removed everywhere in the first token; "" to drop nothing.
    text_drops: removed once from the beginning of the text; "" to drop nothing.
    """

    replacements: tuple[tuple[str, str], ...]
    byte_fallback: bool = False
    first_token_drops: str = ""
    text_drops: str = ""

    def decode(self, token: str) -> Piece:
        """Return the text or bytes of `token` after other text."""
        for old, new in self.replacements:
            token = token.replace(old, new)
        if self.byte_fallback and (byte := BYTE_PIECE.fullmatch(token)):
            return bytes.fromhex(byte[1])
        return token

    def decode_first(self, token: str) -> Piece:
        """Return the text or bytes of `token` at the beginning of the text."""
        if self.first_token_drops:
            token = token.replace(self.first_token_drops, "")
        piece = self.decode(token)
        if isinstance(piece, str):
            return piece.removeprefix(self.text_drops)
        return piece.removeprefix(self.text_drops.encode())


def parse_piece_rules(decoder: JsonObject) -> PieceRules | None:
    """Return the rules of a decoder of a known form, None for any other decoder.

    decoder: the "decoder" of a tokenizer.json. The known forms are `Metaspace`, or any
        number of `Replace`, followed by `ByteFallback`, `Fuse` and `Strip` of one leading
        character. Each of these three may be missing, but `Strip` needs `Fuse`: without
        it, every token would be stripped.
    """
    steps = decoder_steps(decoder)
    rules = _take_space_rules(steps)
    if rules is None:
        return None
    if _take(steps, {"type": "ByteFallback"}) is not None:
        rules = msgspec.structs.replace(rules, byte_fallback=True)
    if _take(steps, {"type": "Fuse"}) is not None:
        strip = _take(steps, {"type": "Strip", "start": 1, "stop": 0})
        if strip is not None:
            rules = msgspec.structs.replace(rules, text_drops=strip["content"])
    return None if steps else rules


def _take_space_rules(steps: list[JsonObject]) -> PieceRules | None:
    """Remove the leading steps that write spaces; return their rules, None if there are no such."""
    if (step := _take(steps, {"type": "Metaspace"})) is not None:
        mark = step["replacement"]
        dropped = "" if step["prepend_scheme"] == "never" else mark
        return PieceRules(((mark, " "),), first_token_drops=dropped)
    replacements = []
    while steps and steps[0]["type"] == "Replace" and "String" in steps[0]["pattern"]:
        step = steps.pop(0)
        replacements.append((step["pattern"]["String"], step["content"]))
    return PieceRules(tuple(replacements)) if replacements else None


def _take(steps: list[JsonObject], fields: JsonObject) -> JsonObject | None:
    """Remove and return the first step if it has these fields, else return None."""
    if steps and all(steps[0].get(name) == value for name, value in fields.items()):
        return steps.pop(0)
    return None


class SentencePieceDetokenizers(TableDetokenizers):
    """Factory for fast tokenizers with a decoder that `parse_piece_rules` knows."""

    def __init__(self, tokenizer: Tokenizer, rules: PieceRules) -> None:
        self._rules = rules
        super().__init__(tokenizer)

    @override
    def build(self, table: PieceTable, *, at_start: bool) -> SentencePieceDetokenizer:
        return SentencePieceDetokenizer(self, table, at_start=at_start)

    @override
    def piece(self, token_id: int) -> Piece:
        piece = lookup_piece(self._tokenizer, token_id)
        return b"" if piece is None else self._rules.decode(piece)

    def first_piece(self, token_id: int) -> Piece:
        """Return the token's piece at the beginning of the text."""
        return self._rules.decode_first(self._tokenizer.id_to_token(token_id) or "")


class SentencePieceDetokenizer(TableDetokenizer):
    """Drops the leading space of the text and joins runs of byte pieces to characters."""

    def __init__(
        self, factory: SentencePieceDetokenizers, table: PieceTable, *, at_start: bool
    ) -> None:
        super().__init__(table)
        self._factory = factory
        self._at_start = at_start
        # The bytes of an unfinished character; None in a run of bytes that is not UTF-8.
        self._pending: bytes | None = b""
        self._choose_texts()

    @override
    def _feed(self, token_id: int) -> str:
        piece = self._table[token_id]
        if piece == b"":
            return ""  # decode() drops it first, so it ends neither a run nor the beginning
        if self._at_start:
            self._at_start = False
            piece = self._factory.first_piece(token_id)
        text = self._end_of_run() + piece if isinstance(piece, str) else self._part(piece)
        self._choose_texts()
        return text

    def _part(self, part: bytes) -> str:
        """Return the text that `part` completes; U+FFFD per byte in a run that is not UTF-8."""
        if self._pending is None:
            return REPLACEMENT * len(part)
        pending = self._pending + part
        try:
            text, used = codecs.utf_8_decode(pending)
        except UnicodeDecodeError:
            self._pending = None
            return REPLACEMENT * len(pending)
        self._pending = pending[used:]
        return text

    def _end_of_run(self) -> str:
        """Return U+FFFD for each byte of a character that stays unfinished."""
        unfinished = REPLACEMENT * len(self._pending or b"")
        self._pending = b""
        return unfinished

    def _choose_texts(self) -> None:
        """Choose the next token's table: none if its text depends on what precedes it."""
        self._texts = NO_TEXTS if self._at_start or self._pending != b"" else self._table.texts
