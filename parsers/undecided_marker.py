"""A marker token in an open string of a call's arguments: it is part of the string, or ends it.

How it works
------------
A model may write about a marker in a string, or forget the quote that closes the string. The first
of these that holds for the output after the token decides:

- a marker that can only follow an end, with nothing but white space in between, and no quote after
  it and its name or header: the call has ended;
- text that cannot follow an end (between the calls of a section, for example): a string;
- the next quote. If it closes the string and the arguments go on, the token was in the string; if
  not, it opens something new, and the call has ended;
- the end of the output: the call has ended;
- more than `MAX_UNDECIDED_OUTPUT` characters, or `MAX_UNDECIDED_TOKENS` marker tokens: a string.

The decision depends on the output alone and not on how it was cut into pieces.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from ..base.limits import MAX_UNDECIDED_OUTPUT, MAX_UNDECIDED_TOKENS
from .arguments.incremental_grammar import skip_space
from .compiled_format import CompiledFormat
from .format import COLLECTED_STATES, TEXT_STATES, State

_BETWEEN = re.compile(r"[ \t\r\n,;\]})]*")
# The text up to the next quote in a string between quotes of one character.
_RUNS = {quote: re.compile(rf"(?:[^\\{quote}]|\\.)*", re.DOTALL) for quote in "\"'"}

Piece = tuple[str, Sequence[int]]
"""Text and token ids, as they were fed."""


class Verdict(enum.Enum):
    """The role of the marker token."""

    STRING = enum.auto()
    END = enum.auto()


class UndecidedMarker:
    """Holds the output from a marker token in an open string on, until it is clear what that was.

    marker, piece: the marker token, and how it was fed. state: the state that it leads to.
    string_end: the mark that closes the string, and the characters that may follow it.
    pieces: the output after the token.
    """

    def __init__(
        self,
        table: CompiledFormat,
        marker: str,
        state: State,
        piece: Piece,
        string_end: tuple[str, str],
    ) -> None:
        self.marker = marker
        self.piece = piece
        self.pieces: list[Piece] = []
        self._string_end = string_end
        self._follows = _find_followers(table, marker, state)
        # Any text may stand between the end and these markers.
        self._frees_text = state in {State.HEADER, State.IGNORED}
        # Text may follow an end.
        self._allows_text = self._frees_text or state in TEXT_STATES | COLLECTED_STATES
        self._tokens = 0
        self._text = ""  # at most MAX_UNDECIDED_OUTPUT characters after the marker
        self._position = 0  # how far it was searched for the quote
        self._closed = -1  # the position after the quote
        self._followed = -1  # the position after markers that can only follow an end
        self._in_name = False  # what follows them is a name or header, up to the next marker

    @property
    def held(self) -> str:
        """All text that waits, with the marker."""
        return self.marker + "".join(text for text, _ in self.pieces)

    def add(self, piece: Piece, marker: str | None) -> Verdict | None:
        """Take the next piece; return what the marker was, or None while that is open.

        marker: the marker token that the piece is, if it is one.
        """
        self.pieces.append(piece)
        text = piece[0]
        if marker is not None:
            self._tokens += 1
            text = text if text.endswith(marker) else text + marker
            if self._in_name or (
                marker in self._follows and (self._frees_text or not self._text.strip())
            ):
                self._followed = len(self._text) + len(text)
                self._in_name = self._follows.get(marker, False)
        room = MAX_UNDECIDED_OUTPUT - len(self._text)
        self._text += text[:room]
        verdict = self._read()
        full = len(text) >= room or self._tokens >= MAX_UNDECIDED_TOKENS
        return Verdict.STRING if verdict is None and full else verdict

    def _read(self) -> Verdict | None:
        if self._followed >= 0:
            rest = self._text[self._followed :].lstrip()
            quote = self._string_end[0]
            if not rest.startswith(quote):
                waits = self._in_name or quote.startswith(rest)
                return None if waits else Verdict.END
        elif not self._allows_text and self._cannot_follow_end():
            return Verdict.STRING
        if self._closed < 0 and not self._find_quote():
            return None
        end = skip_space(self._text, self._closed)
        if end == len(self._text):
            return None
        return Verdict.STRING if self._text[end] in self._string_end[1] else Verdict.END

    def _cannot_follow_end(self) -> bool:
        """Whether the text cannot stand between calls."""
        between = _BETWEEN.match(self._text)
        return between is not None and between.end() < len(self._text)

    def _find_quote(self) -> bool:
        """Search for the next quote; note the position after it."""
        quote = self._string_end[0]
        run = _RUNS.get(quote)
        if run is None:
            start = self._text.find(quote, max(0, self._position - len(quote)))
            self._position = len(self._text)
        else:
            match = run.match(self._text, self._position)
            start = self._position = self._position if match is None else match.end()
            if not self._text.startswith(quote, start):
                start = -1
        if start >= 0:
            self._closed = start + len(quote)
        return start >= 0


def _find_followers(table: CompiledFormat, marker: str, state: State) -> dict[str, bool]:
    """Return the markers that can only follow `marker`, which leads to `state`.

    The value says whether a name or header comes after it. The marker that opens a section is not
    at once followed by the one that ends it.
    """
    opens = marker in table.find_exits(State.CONTENT)
    return {
        follower: target in COLLECTED_STATES
        for follower, target in table.find_exits(state).items()
        if not opens or (isinstance(target, State) and target not in TEXT_STATES)
    }
