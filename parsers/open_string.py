"""Marker tokens in an open string of a call's arguments: the third layer of `LinearParser`.

How it works
------------
A model may write about a marker in a string, or forget the quote that closes the string. What
follows the token decides, the first of:

- a marker that can only follow an end, with nothing but white space in between, and no quote
  behind it and its name or header: the call has ended;
- text that cannot stand behind an end (between the calls of a section, for example): a string;
- the next quote. If it closes the string and the arguments go on, the token was in the string; if
  not, it opens something new, and the call has ended;
- the end of the output: the call has ended;
- more than `MAX_UNDECIDED` characters, or `MAX_TOKENS` marker tokens: a string.

The decision depends on the output alone and not on how it was cut into pieces.
"""

from __future__ import annotations

import abc
import enum
import re
from collections import deque
from collections.abc import Mapping, Sequence

from ..base.json_types import JsonObject
from .arguments.incremental_grammar import skip_space
from .call_rollback import CallRollback
from .compiled_format import CompiledFormat
from .format import COLLECTED_STATES, TEXT_STATES, State, target_state

MAX_UNDECIDED = 4096
MAX_TOKENS = 64
_BETWEEN = re.compile(r"[ \t\r\n,;\]})]*")
# What a string between quotes of one character holds up to the next quote.
_RUNS = {quote: re.compile(rf"(?:[^\\{quote}]|\\.)*", re.DOTALL) for quote in "\"'"}

Piece = tuple[str, Sequence[int]]
"""Text and token ids, as they were fed."""


class Verdict(enum.Enum):
    """What the marker token was."""

    STRING = enum.auto()
    END = enum.auto()


class UndecidedMarker:
    """Holds the output from a marker token in an open string on, until it is clear what that was.

    marker, piece: the marker token, and how it was fed.
    string_end: the mark that closes the string, and the characters that may follow it.
    follows: the markers that can only follow an end; whether a name or header comes behind each.
    frees_text: any text may stand between the end and these markers.
    allows_text: text may follow an end.
    """

    def __init__(
        self,
        marker: str,
        piece: Piece,
        string_end: tuple[str, str],
        follows: Mapping[str, bool],
        *,
        frees_text: bool,
        allows_text: bool,
    ) -> None:
        self.marker = marker
        self.piece = piece
        self.pieces: list[Piece] = []
        self._quote, self._goes_on = string_end
        self._follows = follows
        self._frees_text = frees_text
        self._allows_text = allows_text
        self._tokens = 0
        self._text = ""  # at most MAX_UNDECIDED characters behind the marker
        self._position = 0  # how far it was searched for the quote
        self._closed = -1  # the position behind the quote
        self._followed = -1  # the position behind markers that can only follow an end
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
        room = MAX_UNDECIDED - len(self._text)
        self._text += text[:room]
        verdict = self._read()
        full = len(text) >= room or self._tokens >= MAX_TOKENS
        return Verdict.STRING if verdict is None and full else verdict

    def _read(self) -> Verdict | None:
        if self._followed >= 0:
            rest = self._text[self._followed :].lstrip()
            if not rest.startswith(self._quote):
                waits = self._in_name or self._quote.startswith(rest)
                return None if waits else Verdict.END
        elif not self._allows_text and self._stands_behind_no_end():
            return Verdict.STRING
        if self._closed < 0 and not self._find_quote():
            return None
        end = skip_space(self._text, self._closed)
        if end == len(self._text):
            return None
        return Verdict.STRING if self._text[end] in self._goes_on else Verdict.END

    def _stands_behind_no_end(self) -> bool:
        """Whether there is text that cannot stand between calls."""
        between = _BETWEEN.match(self._text)
        return between is not None and between.end() < len(self._text)

    def _find_quote(self) -> bool:
        """Search for the next quote; note the position behind it."""
        run = _RUNS.get(self._quote)
        if run is None:
            start = self._text.find(self._quote, max(0, self._position - len(self._quote)))
            self._position = len(self._text)
        else:
            match = run.match(self._text, self._position)
            start = self._position = self._position if match is None else match.end()
            if not self._text.startswith(self._quote, start):
                start = -1
        if start >= 0:
            self._closed = start + len(self._quote)
        return start >= 0


class OpenStrings(CallRollback):
    """Decides whether a marker token in an open string is a part of the string.

    parameters: each declared function's JSON schema by name.
    """

    def __init__(self, table: CompiledFormat, parameters: Mapping[str, JsonObject]) -> None:
        super().__init__(table, parameters)
        self._undecided: UndecidedMarker | None = None

    @abc.abstractmethod
    def _feed_piece(self, text: str, token_ids: Sequence[int]) -> None:
        """Read a piece of output while no marker is undecided."""

    @property
    def _undecided_length(self) -> int:
        """How many characters wait for a decision."""
        return len(self._undecided.held) if self._undecided is not None else 0

    def _feed(self, text: str, token_ids: Sequence[int]) -> None:
        """Read a piece of output that may change the state."""
        pieces = deque([(text, token_ids)])
        while pieces:
            piece = pieces.popleft()
            undecided = self._undecided
            if undecided is None:
                self._feed_piece(*piece)
                continue
            marker = self._table.ids.get(piece[1][0]) if piece[1] else None
            verdict = undecided.add(piece, marker)
            if verdict is not None:
                pieces.extendleft(reversed(self._decide(undecided, verdict)))

    def _begin_undecided(self, marker: str, piece: Piece, string_end: tuple[str, str]) -> None:
        """Wait for what follows a marker token in an open string."""
        target = target_state(self._markers[marker])
        state = target if isinstance(target, State) else self._text_state
        self._undecided = UndecidedMarker(
            marker,
            piece,
            string_end,
            self._find_followers(marker, state),
            frees_text=state in {State.HEADER, State.IGNORED},
            allows_text=state in TEXT_STATES | COLLECTED_STATES or state is State.IGNORED,
        )

    def _find_followers(self, marker: str, state: State) -> dict[str, bool]:
        """Return the markers that can only follow `marker`, which leads to `state`.

        The value says whether a name or header comes behind it. What opens a section is not at
        once followed by its end.
        """
        opens = marker in self._table.find_exits(State.CONTENT)
        return {
            follower: target in COLLECTED_STATES
            for follower, target in self._table.find_exits(state).items()
            if not opens or (isinstance(target, State) and target not in TEXT_STATES)
        }

    def _decide(self, undecided: UndecidedMarker, verdict: Verdict) -> list[Piece]:
        """Read the undecided marker as what it was; return what is to be read behind it."""
        self._undecided = None
        if verdict is Verdict.END:
            self._on_token(undecided.marker, undecided.piece[0], ends_string=True)
        else:
            self._take_token_as_text(undecided.marker, undecided.piece[0])
        return undecided.pieces

    def _finish_undecided(self, *, cut: bool) -> None:
        """End the output: the call has ended, unless a limit has cut it."""
        while self._undecided is not None:
            if cut:
                self._held += self._undecided.held
                self._undecided = None
                return
            for piece in self._decide(self._undecided, Verdict.END):
                self._feed(*piece)
