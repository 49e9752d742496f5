"""A marker token in an open string of a call's arguments: it is part of the string, or ends it.

How it works
------------
A model may write about a marker in a string, or forget the quote that closes the string. The output
after the token waits until the first of these holds:

- the next quote. If it closes the string and the arguments go on, the token was in the string; if
  not, it opens something new, and the call has ended;
- the end of the output: the call has ended;
- an escape sequence, or `MAX_UNDECIDED_OUTPUT` characters: a string.

The string of a call that has ended so has no end, and so the call stays open.

The decision depends on the output alone and not on how it was cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..base.limits import MAX_UNDECIDED_OUTPUT
from .arguments.incremental_grammar import partial_length, skip_space

# The text up to the next quote in a string between quotes of one character.
_RUNS = {quote: re.compile(rf"[^\\{quote}]*") for quote in "\"'"}
# Placeholder for a marker in the text that is looked at; 4 characters, an average token.
_MARKER = "<  >"

Piece = tuple[str, Sequence[int]]
"""Text and token ids, as they were fed."""


class UndecidedMarker:
    """Holds the output from a marker token in an open string on, until it is clear what that was.

    marker, text: the marker token, and the text with which it was fed.
    string_end: the mark that closes the string, and the characters that may follow it.
    pieces: the output after the token.
    """

    def __init__(self, marker: str, text: str, string_end: tuple[str, str]) -> None:
        self.marker = marker
        self.text = text
        self.pieces: list[Piece] = []
        self._quote, self._closing = string_end
        self._text = ""  # of the pieces

    @property
    def held(self) -> str:
        """All text that waits, with the marker."""
        return self.marker + "".join(text for text, _ in self.pieces)

    def add(self, piece: Piece, marker: str | None) -> bool | None:
        """Take the next piece; return whether the marker has ended the string, or None if unknown.

        marker: the marker token that the piece is, if it is one.
        """
        self.pieces.append(piece)
        is_text = marker is None or marker == self._quote
        self._text += (marker or piece[0]) if is_text else _MARKER
        text = self._text[:MAX_UNDECIDED_OUTPUT]
        has_ended = self._read(text)
        return False if has_ended is None and len(text) == MAX_UNDECIDED_OUTPUT else has_ended

    def _read(self, text: str) -> bool | None:
        """Judge the marker by the next quote in `text`, which is all that is looked at."""
        position = self._find_quote(text)
        if text.startswith("\\", position):
            return False
        if not text.startswith(self._quote, position):
            return None
        end = skip_space(text, position + len(self._quote))
        return None if end == len(text) else text[end] not in self._closing

    def _find_quote(self, text: str) -> int:
        """Return the position of the next quote or escape, or of what may begin a quote."""
        run = _RUNS.get(self._quote)
        if run is not None:
            match = run.match(text)
            return match.end() if match is not None else 0
        position = text.find(self._quote)
        return position if position >= 0 else len(text) - partial_length(text, self._quote)
