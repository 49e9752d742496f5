"""SentencePiece as Hugging Face writes it (Llama 2, Mistral, Gemma, T5): a table from tokens to text or bytes.

Pieces spell spaces as U+2581 and, with byte fallback, characters that the vocabulary
lacks as their bytes, `<0xE4>` `<0xB8>` `<0x96>`. Two rules of decode() look at more
than one token:

- The text's leading space goes: one space of the whole text (`Strip`, the older form),
  or the marks of the first token (`Metaspace`). Gemma keeps it.
- Neighbouring byte pieces are one run. If a run as a whole is no UTF-8, decode() writes
  U+FFFD for every byte of it, also for those that spell whole characters. A stream has
  given out the characters before the first wrong byte, and nobody waits for a run's
  end, which may never come: these characters stay, and the bytes from the wrong one (or
  the unfinished character) on become U+FFFD each, up to the run's end. So the text
  differs from decode() in such characters only. (`DecodeStream`, and vLLM with it, loses
  the wrong bytes there: the piece behind the run is an "invalid prefix" to it.)
"""

from __future__ import annotations

import codecs
from typing import Any

import msgspec
from tokenizers import Tokenizer

from .base import REPLACEMENT
from .pieces import BYTE_PIECE, read_piece
from .table import NO_TEXTS, Piece, PieceTable, TableDetokenizer, TableDetokenizers


class Spelling(msgspec.Struct, frozen=True):
    """How pieces spell text, read from a tokenizer's decoder.

    replaced: strings and what stands for them, in this order.
    has_bytes: some pieces are bytes.
    drops_marks: what the first token loses wherever it is in it; "" for nothing.
    strips: what the text loses at its beginning, once; "" for nothing.
    """

    replaced: tuple[tuple[str, str], ...]
    has_bytes: bool = False
    drops_marks: str = ""
    strips: str = ""

    def piece(self, token: str) -> Piece:
        """Return what `token` spells behind other text."""
        for old, new in self.replaced:
            token = token.replace(old, new)
        if self.has_bytes and (byte := BYTE_PIECE.fullmatch(token)):
            return bytes.fromhex(byte[1])
        return token

    def first_piece(self, token: str) -> Piece:
        """Return what `token` spells if no text is before it."""
        if self.drops_marks:
            token = token.replace(self.drops_marks, "")
        piece = self.piece(token)
        if isinstance(piece, str):
            return piece.removeprefix(self.strips)
        return piece.removeprefix(self.strips.encode())


def read_spelling(decoder: dict[str, Any]) -> Spelling | None:
    """Return how a decoder of one of the known forms spells text, None for another one.

    decoder: the "decoder" of a tokenizer.json. The forms: `Metaspace`, or any number of
        `Replace`, then `ByteFallback`, `Fuse` and `Strip` of one leading character,
        each of which may be missing; but only what is fused is stripped as a whole.
    """
    steps = list(decoder.get("decoders", [decoder] if decoder else []))
    spelling = _marks(steps)
    if spelling is None:
        return None
    if steps and steps[0]["type"] == "ByteFallback":
        spelling = msgspec.structs.replace(spelling, has_bytes=True)
        steps.pop(0)
    fused = bool(steps) and steps[0]["type"] == "Fuse"
    if fused:
        steps.pop(0)
    if (
        fused
        and steps
        and steps[0]["type"] == "Strip"
        and (steps[0]["start"], steps[0]["stop"]) == (1, 0)
    ):
        spelling = msgspec.structs.replace(spelling, strips=steps.pop(0)["content"])
    return None if steps else spelling


def _marks(steps: list[dict[str, Any]]) -> Spelling | None:
    """Take the steps that spell spaces off the front of `steps`."""
    if steps and steps[0]["type"] == "Metaspace":
        step = steps.pop(0)
        mark = step["replacement"]
        return Spelling(
            ((mark, " "),), drops_marks="" if step["prepend_scheme"] == "never" else mark
        )
    replaced = []
    while steps and steps[0]["type"] == "Replace" and "String" in steps[0]["pattern"]:
        step = steps.pop(0)
        replaced.append((step["pattern"]["String"], step["content"]))
    return Spelling(tuple(replaced)) if replaced else None


class SentencePieceDetokenizers(TableDetokenizers):
    """See `DetokenizerFactory`."""

    def __init__(self, tokenizer: Tokenizer, spelling: Spelling) -> None:
        self._spelling = spelling
        super().__init__(tokenizer)

    def detokenizer(self, table: PieceTable, *, at_start: bool) -> SentencePieceDetokenizer:
        """See `TableDetokenizers`."""
        return SentencePieceDetokenizer(self, table, at_start=at_start)

    def piece(self, token_id: int) -> Piece:
        """See `TableDetokenizers`."""
        piece = read_piece(self._tokenizer, token_id)
        return b"" if piece is None else self._spelling.piece(piece)

    def first_piece(self, token_id: int) -> Piece:
        """Return the token's piece if no text is before it."""
        return self._spelling.first_piece(self._tokenizer.id_to_token(token_id) or "")


class SentencePieceDetokenizer(TableDetokenizer):
    """See `Detokenizer`."""

    def __init__(
        self, factory: SentencePieceDetokenizers, table: PieceTable, *, at_start: bool
    ) -> None:
        super().__init__(table)
        self._factory = factory
        self._at_start = at_start
        # The beginning of a character; None in a run of bytes that is no UTF-8.
        self._pending: bytes | None = b""
        self._look_up()

    def _feed(self, token_id: int) -> str:
        piece = self._table[token_id]
        if piece == b"":
            return ""  # decode() leaves it out first of all, so it ends neither a run nor the start
        if self._at_start:
            self._at_start = False
            piece = self._factory.first_piece(token_id)
        text = self._end_of_run() + piece if isinstance(piece, str) else self._part(piece)
        self._look_up()
        return text

    def _part(self, part: bytes) -> str:
        """Return the text that `part` completes, or U+FFFD for each byte of a run that is no UTF-8."""
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
        """Return U+FFFD for each byte of a character that is now never finished."""
        unfinished = REPLACEMENT * len(self._pending or b"")
        self._pending = b""
        return unfinished

    def _look_up(self) -> None:
        """Look texts up in the table from now on, unless they depend on what came before."""
        self._texts = NO_TEXTS if self._at_start or self._pending != b"" else self._table.texts
