"""A marker token in an open string of a call's arguments: it is part of the string, or ends it.

How it works
------------
A model may write about a marker in a string, or forget the quote that closes the string. The output
after the token waits until the first of these holds:

- text that cannot follow an end, words between the calls of a section for example: a string;
- markers that can only follow an end, and then text that can only follow them: the call has ended;
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
from .compiled_format import CompiledFormat
from .format import TEXT_STATES, Jump, State
from .shown_text import BETWEEN_CALLS

# The text up to the next quote in a string between quotes of one character.
_RUNS = {quote: re.compile(rf"(?:[^\\{quote}]|\\.)*", re.DOTALL) for quote in "\"'"}
_ENDED_STATES = TEXT_STATES | {Jump.RETURN}
_ANYTHING, _OBJECT, _HEADER = map(re.compile, ("", r"[{\[]", r"[\w\s.:=<>/\-]*\Z"))
# The text that may follow a marker, by the state that it leads to: its beginning, all of it if
# another marker follows, and whether such text is no text of the string. Other states begin with
# one of their own markers.
_FOLLOWERS: dict[State | Jump, tuple[re.Pattern[str], re.Pattern[str], bool]] = {
    **dict.fromkeys(
        _ENDED_STATES | {Jump.BY_HEADER, State.PYTHON_CALLS, State.PYTHON_LINES},
        (_ANYTHING, _ANYTHING, True),
    ),
    State.ARGUMENTS: (_OBJECT, _ANYTHING, True),
    State.JSON_CALLS: (_OBJECT, _ANYTHING, False),
    State.CALL_LIST: (_OBJECT, _ANYTHING, False),
    State.HEADER: (_HEADER, _HEADER, False),
    State.IGNORED: (_HEADER, _HEADER, False),
}
# In place of a marker, in the text that is looked at: as long as a token is on average.
_MARKER = "<  >"

Piece = tuple[str, Sequence[int]]
"""Text and token ids, as they were fed."""


class UndecidedMarker:
    """Holds the output from a marker token in an open string on, until it is clear what that was.

    marker, text: the marker token, and the text with which it was fed. state: that it leads to.
    string_end: the mark that closes the string, and the characters that may follow it.
    pieces: the output after the token.
    """

    def __init__(
        self,
        table: CompiledFormat,
        marker: str,
        text: str,
        state: State,
        string_end: tuple[str, str],
    ) -> None:
        self.marker = marker
        self.text = text
        self.pieces: list[Piece] = []
        self._table = table
        self._state: State | Jump = state
        self._quote, self._closing = string_end
        self._text = ""  # of the pieces
        self._followed = 0  # the position after the markers that can follow an end

    @property
    def held(self) -> str:
        """All text that waits, with the marker."""
        return self.marker + "".join(text for text, _ in self.pieces)

    def add(self, piece: Piece, marker: str | None) -> bool | None:
        """Take the next piece; return whether the marker has ended the string, or None if unknown.

        marker: the marker token that the piece is, if it is one.
        """
        self.pieces.append(piece)
        if marker is None or marker == self._quote:
            self._text += marker or piece[0]
        else:
            self._follow(marker)
        text = self._text[:MAX_UNDECIDED_OUTPUT]
        has_ended = self._read(text)
        return False if has_ended is None and len(text) == MAX_UNDECIDED_OUTPUT else has_ended

    def _follow(self, marker: str) -> None:
        """Note a marker token, which may be one that follows an end."""
        target = self._exits.get(marker)
        between = self._text[self._followed :].strip()
        if target is not None and self._may_stand(between, whole=True):
            self._state = target
            self._followed = len(self._text) + len(_MARKER)
        self._text += _MARKER

    @property
    def _exits(self) -> dict[str, State | Jump]:
        """The markers that can follow, with their targets."""
        exits = self._table.find_exits(self._state) if isinstance(self._state, State) else {}
        # The marker that opens a section is not at once followed by the one that ends it.
        opens = not self._followed and self.marker in self._table.find_exits(State.CONTENT)
        return {
            follower: target
            for follower, target in exits.items()
            if follower and not (opens and target in _ENDED_STATES)
        }

    def _may_stand(self, text: str, *, whole: bool = False) -> bool:
        """Whether `text` may be the beginning, or the whole, of what follows up to a marker."""
        followers = self._followers
        if followers is not None:
            beginning, all_text, _ = followers
            return (all_text.fullmatch if whole else beginning.match)(text) is not None
        if whole:
            return not text
        rest = text.lstrip(BETWEEN_CALLS)
        return any(marker.startswith(rest) or rest.startswith(marker) for marker in self._exits)

    @property
    def _followers(self) -> tuple[re.Pattern[str], re.Pattern[str], bool] | None:
        """The row of `_FOLLOWERS` for the state; that of a name depends on the format."""
        name = self._table.grammar.function
        return (name, name, False) if self._state is State.NAME else _FOLLOWERS.get(self._state)

    def _read(self, text: str) -> bool | None:
        """Judge the marker by `text`, which is all that is looked at."""
        quote = self._quote
        behind = text[self._followed :].lstrip()
        if behind and not self._may_stand(behind):
            return False
        may_be_quote = behind.startswith(quote) or quote.startswith(behind)
        if self._followed and not may_be_quote and self._is_decisive(behind):
            return True
        if quote in _RUNS and "\\" in text[: self._find_quote(text)]:
            return False
        return self._read_quote(text)

    def _is_decisive(self, text: str) -> bool:
        """Whether `text` after markers is no text of the string."""
        if (followers := self._followers) is not None:
            return followers[2]
        rest = text.lstrip(BETWEEN_CALLS)
        return self._state is not State.KEY and any(map(rest.startswith, self._exits))

    def _find_quote(self, text: str) -> int:
        """Return the position of the next quote, or of what may be the beginning of one."""
        run = _RUNS.get(self._quote)
        if run is not None:
            match = run.match(text)
            return match.end() if match is not None else 0
        position = text.find(self._quote)
        return position if position >= 0 else len(text) - partial_length(text, self._quote)

    def _read_quote(self, text: str) -> bool | None:
        """Judge the marker by the text after the next quote."""
        position = self._find_quote(text)
        if not text.startswith(self._quote, position):
            return None
        end = skip_space(text, position + len(self._quote))
        return None if end == len(text) else text[end] not in self._closing
