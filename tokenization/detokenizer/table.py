"""What `byte_level.py` and `sentencepiece.py` share: a table from tokens to text or bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

from tokenizers import Tokenizer

from .base import Detokenizer, DetokenizerFactory, DetokenizerOptions
from .spaces import without_spaces
from .vocabulary import special_ids

# Text, or bytes that are part of a character; b"" for what is no token.
Piece = str | bytes


class PieceTable(dict[int, Piece]):
    """The pieces of a vocabulary, filled as its tokens occur; b"" also for a hidden one.

    texts: the tokens that are text whatever is around them, which are most.
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
    """See `DetokenizerFactory`. For fast tokenizers whose pieces spell their text alone, whatever is around them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = special_ids(tokenizer)
        # Nearly always an added token spells its content, so that there are no spaces to leave out.
        added = {
            token_id: token.content
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
        }
        self._respelled = any(
            self.piece(token_id) != content for token_id, content in added.items()
        )
        self._added = added
        self._shown = PieceTable(self.piece, ())
        self._hidden = PieceTable(self.piece, self._special)

    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        """See `DetokenizerFactory`."""
        table = self._hidden if options.skip_special_tokens else self._shown
        end = len(prompt_token_ids)
        while end and (isinstance(piece := table[prompt_token_ids[end - 1]], bytes) or not piece):
            end -= 1
        detokenizer = self.detokenizer(table, at_start=not end)
        # Half a character at the prompt's end belongs to the output.
        detokenizer.feed_all(prompt_token_ids[end:])
        return without_spaces(detokenizer, options, self._added) if self._respelled else detokenizer

    @abstractmethod
    def detokenizer(self, table: PieceTable, *, at_start: bool) -> Detokenizer:
        """Return a detokenizer of this kind. at_start: there is no text yet."""

    @abstractmethod
    def piece(self, token_id: int) -> Piece:
        """Return the token's piece, shown if it is a special one."""

    def token_bytes(self, token_id: int) -> bytes:
        """See `DetokenizerFactory`."""
        piece = self.piece(token_id)
        return piece.encode() if isinstance(piece, str) else piece

    def is_special(self, token_id: int) -> bool:
        """See `DetokenizerFactory`."""
        return token_id in self._special


class TableDetokenizer(Detokenizer):
    """See `Detokenizer`.

    table: what is known of the tokens so far, shared by all of a tokenizer.
    """

    def __init__(self, table: PieceTable) -> None:
        self._table = table
        # Where a token's text depends on what came before, this is NO_TEXTS instead:
        # one look-up tells both, for nearly every token the only thing done.
        self._texts = table.texts

    def feed(self, token_id: int) -> str:
        """See `Detokenizer`."""
        text = self._texts.get(token_id)
        return self._feed(token_id) if text is None else text

    def feed_all(self, token_ids: Sequence[int]) -> str:
        """See `Detokenizer`."""
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
        """Return the text of a token that is new to the table, part of a character, or behind such a part."""


NO_TEXTS: dict[int, str] = {}
