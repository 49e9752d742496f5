"""Detokenizers that map tokens to text or bytes with a table, and those of byte-level BPE.

- `ByteLevelDetokenizers`: Llama 3, Qwen, DeepSeek, gpt-oss; pieces are in GPT-2's alphabet.
- `TekkenDetokenizers`: mistral-common's tekken, in vLLM's class or `backedge.tokenization.mistral`.
- SentencePiece has its own module.
"""

from __future__ import annotations

import codecs
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, cast

from tokenizers import Tokenizer
from typing_extensions import override

from .base import Detokenizer, DetokenizerFactory, DetokenizerOptions, SupportsDecode, remove_spaces
from .offsets import decode_function
from .vocabulary import byte_level_bytes, lookup_piece, special_ids

# Text, or bytes that are part of a character; b"" for an id that is not in the vocabulary.
Piece = str | bytes


class PieceTable(dict[int, Piece]):
    """The pieces of a vocabulary, filled as its tokens occur; b"" for a hidden token.

    texts: the tokens whose text does not depend on their neighbours, which are the majority.
    """

    def __init__(self, read: Callable[[int], Piece], hidden: Iterable[int]) -> None:
        super().__init__(dict.fromkeys(hidden, b""))
        self._read = read
        self.texts: dict[int, str] = dict.fromkeys(self, "")

    def __missing__(self, token_id: int) -> Piece:
        piece = self[token_id] = self._read(token_id)
        if isinstance(piece, str) or not piece:
            self.texts[token_id] = piece or ""
        return piece


class TableDetokenizers(DetokenizerFactory):
    """Factory for fast tokenizers whose pieces each have their own text or bytes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = special_ids(tokenizer)
        added = {
            token_id: token.content
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
        }
        # An added token's text is nearly always its content, without a space to remove.
        self._adds_spaces = any(
            self.piece(token_id) != content for token_id, content in added.items()
        )
        self._added = added
        self._shown = PieceTable(self.piece, ())
        self._hidden = PieceTable(self.piece, self._special)

    @override
    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        table = self._hidden if options.skip_special_tokens else self._shown
        end = len(prompt_token_ids)
        while end and (isinstance(piece := table[prompt_token_ids[end - 1]], bytes) or not piece):
            end -= 1
        detokenizer = self.build(table, at_start=not end)
        # A character that the prompt leaves unfinished belongs to the output.
        detokenizer.feed_all(prompt_token_ids[end:])
        if not self._adds_spaces:
            return detokenizer
        return remove_spaces(detokenizer, options, self._added)

    @abstractmethod
    def build(self, table: PieceTable, *, at_start: bool) -> Detokenizer:
        """Return a new detokenizer. at_start: no text precedes its first token."""

    @abstractmethod
    def piece(self, token_id: int) -> Piece:
        """Return the token's piece; a special token's as if it were shown."""

    @override
    def token_bytes(self, token_id: int) -> bytes:
        piece = self.piece(token_id)
        return piece.encode() if isinstance(piece, str) else piece


class TableDetokenizer(Detokenizer):
    """Looks tokens up in a table that all detokenizers of a tokenizer share."""

    def __init__(self, table: PieceTable) -> None:
        self._table = table
        # NO_TEXTS while the next token's text depends on what precedes it, so one look-up
        # decides, and nearly every token needs nothing else.
        self._texts = table.texts

    @override
    def feed(self, token_id: int) -> str:
        text = self._texts.get(token_id)
        return self._feed(token_id) if text is None else text

    @override
    def feed_all(self, token_ids: Sequence[int]) -> str:
        texts, whole = self._texts, ""
        for token_id in token_ids:
            text = texts.get(token_id)
            if text is None:
                text = self._feed(token_id)
                texts = self._texts
            whole += text
        return whole

    @abstractmethod
    def _feed(self, token_id: int) -> str:
        """Return the text of a token that needs more than a look-up.

        It is new to the table, part of a character, or follows such a part.
        """


NO_TEXTS: dict[int, str] = {}


def _read_piece(content: bytes) -> Piece:
    """Return the text of some bytes; the bytes if they are part of a character."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


class ByteLevelDetokenizers(TableDetokenizers):
    """Factory for fast tokenizers whose only decoder is `ByteLevel`."""

    @override
    def build(self, table: PieceTable, *, at_start: bool) -> ByteLevelDetokenizer:
        return ByteLevelDetokenizer(table)

    @override
    def piece(self, token_id: int) -> Piece:
        piece = lookup_piece(self._tokenizer, token_id)
        return b"" if piece is None else _read_piece(byte_level_bytes(piece))


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


class Tekken(Protocol):
    """mistral-common's `Tekkenizer`."""

    def id_to_byte_piece(self, token_id: int, /) -> bytes:
        """Return the bytes of one token."""


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
            return _read_piece(self._tekken.id_to_byte_piece(token_id))
        except (IndexError, KeyError, ValueError, OverflowError):
            return b""  # not a token of this vocabulary
