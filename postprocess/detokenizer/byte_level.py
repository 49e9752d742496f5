"""Byte-level BPE (GPT-2's alphabet: Llama 3, Qwen, DeepSeek, gpt-oss): a table from tokens to text or bytes."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from tokenizers import Tokenizer

from .base import Detokenizer, DetokenizerOptions
from .pieces import BYTE_LEVEL

_decoder = codecs.getincrementaldecoder("utf-8")
# A character has at most 4 bytes, so its beginning is in this many tokens.
MAX_CHARACTER_TOKENS = 4


class ByteLevelDetokenizers:
    """See `DetokenizerFactory`. For tokenizers whose decoder is `ByteLevel` and nothing else."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        added = tokenizer.get_added_tokens_decoder()
        self._tokenizer = tokenizer
        self._special = frozenset(token_id for token_id, token in added.items() if token.special)
        # Filled as tokens occur: text, or bytes that are part of a character.
        self._shown: dict[int, str | bytes] = {}
        self._hidden: dict[int, str | bytes] = dict.fromkeys(self._special, "")

    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        """See `DetokenizerFactory`."""
        pieces = self._hidden if options.skip_special_tokens else self._shown
        detokenizer = ByteLevelDetokenizer(self, pieces)
        for token_id in prompt_token_ids[-MAX_CHARACTER_TOKENS:]:
            detokenizer.feed(token_id)  # half a character at its end belongs to the output
        return detokenizer

    def token_bytes(self, token_id: int) -> bytes:
        """See `DetokenizerFactory`."""
        try:
            piece = self._tokenizer.id_to_token(token_id)
        except OverflowError:
            return b""  # negative, or beyond 32 bits
        if piece is None:
            return b""
        try:
            return bytes([BYTE_LEVEL[char] for char in piece])
        except KeyError:
            return piece.encode()  # an added token that is not spelled in the alphabet

    def is_special(self, token_id: int) -> bool:
        """See `DetokenizerFactory`."""
        return token_id in self._special

    def piece(self, token_id: int) -> str | bytes:
        """Return the token's text, or its bytes if they are no whole characters."""
        content = self.token_bytes(token_id)
        try:
            return content.decode()
        except UnicodeDecodeError:
            return content


class ByteLevelDetokenizer:
    """See `Detokenizer`. pieces: what is known of the tokens so far, shared by all of a tokenizer."""

    def __init__(self, factory: ByteLevelDetokenizers, pieces: dict[int, str | bytes]) -> None:
        self._factory = factory
        self._pieces = pieces
        self._decoder = _decoder("replace")
        self._in_character = False

    def feed(self, token_id: int) -> str:
        """See `Detokenizer`."""
        piece = self._pieces.get(token_id)
        if piece is None:
            piece = self._pieces[token_id] = self._factory.piece(token_id)
        if piece.__class__ is str and not self._in_character:
            return piece
        if not piece:
            return ""
        text = self._decoder.decode(piece.encode() if isinstance(piece, str) else piece)
        self._in_character = bool(self._decoder.getstate()[0])
        return text
