"""A call in a thought whose end the answer may still show: it was considered, or is meant.

The model that writes the end of its thought after a call has only thought about it. One that
writes none means the call. So a call in open reasoning waits, and all output after it:

- if the end of the thought comes, everything up to it is reasoning;
- at the end of the output, and beyond `MAX_CONSIDERED` characters, it is a call. From there on the
  answer has no more of these: models that end no thought have their next calls streamed.

The decision depends on the output alone and not on how it was cut into pieces.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..base.limits import MAX_CONSIDERED
from .compiled_format import CompiledFormat
from .events import ToolCallCut
from .format import REASONING_STATES, State
from .held_back import HeldText, hold
from .lexer import Lexer, Reader
from .marker_in_string import Piece
from .shown_text import ShownText


class ConsideredCall:
    """Holds the output from a call's marker in reasoning on.

    marker: opens the call. ends: the markers that end the thought. in_text: those of them that
        are no tokens.
    reasoning_tokens: how many were counted before.
    pieces: the output after the marker. text: all of it as text.
    """

    def __init__(
        self, marker: str, ends: Collection[str], in_text: Collection[str], reasoning_tokens: int
    ) -> None:
        self.marker = marker
        self.ends = ends
        self._in_text = in_text
        self.reasoning_tokens = reasoning_tokens
        self.pieces: list[Piece] = []
        self.text = ""
        self._searched = 0

    def add(self, text: str, token_ids: Sequence[int] = ()) -> None:
        """Add a piece of the output; a token's text is its marker."""
        self.pieces.append((text, token_ids))
        self.text += text

    @property
    def is_full(self) -> bool:
        """Whether nothing more may wait."""
        return len(self.text) >= MAX_CONSIDERED

    def find_end(self) -> int:
        """Return where the first end that is no token begins in the text; -1 without any."""
        found = [
            at
            for end in self._in_text
            if (at := self.text.find(end, max(0, self._searched - len(end)), MAX_CONSIDERED)) >= 0
        ]
        self._searched = len(self.text)
        return min(found, default=-1)


class ConsideredCalls:
    """Lets calls in open reasoning wait until it is clear whether they are meant.

    call: the one that waits, if any.
    """

    def __init__(
        self, table: CompiledFormat, lexer: Lexer, shown: ShownText, reader: Reader
    ) -> None:
        self._table = table
        self._lexer = lexer
        self._shown = shown
        self._calls = shown.calls
        self._reader = reader
        self._are_meant = False
        self.call: ConsideredCall | None = None

    @property
    def held_text(self) -> list[HeldText]:
        """The text that waits, with the reason."""
        call = self.call
        return hold("possible call", "" if call is None else call.marker + call.text)

    def begin(self, marker: str, state: State) -> bool:
        """Let the call that `marker` opens in `state` wait; return False if it need not."""
        ends, lexer = self._table.thought_ends, self._lexer
        if self._are_meant or not ends or state not in REASONING_STATES:
            return False
        self._reader.enter(State.REASONING)
        in_text = ends.difference(self._table.ids.values())
        self.call = ConsideredCall(marker, ends, in_text, lexer.reasoning_tokens)
        # All text comes to `consider`.
        self._shown.read_closely()
        lexer.find_no_markers()
        return True

    def feed(self, text: str, token_ids: Sequence[int]) -> None:
        """Read a token that may be a marker."""
        call, token_id = self.call, next(iter(token_ids), -1)
        marker = self._table.ids.get(token_id) or self._table.parts.get(token_id, "")
        if call is not None and marker in call.ends:
            self.consider(text.removesuffix(marker))
            if self.call is not None:
                self._end_thought(call, len(call.text))
            text = marker
        elif call is not None:
            self.consider(text if text.endswith(marker) else text + marker, token_ids)
            return
        self._lexer.feed(text, token_ids)

    def consider(self, text: str, token_ids: Sequence[int] = ()) -> None:
        """Take output after the call's marker."""
        call = self.call
        if call is None:
            return
        call.add(text, token_ids)
        end = call.find_end()
        if end >= 0:
            self._end_thought(call, end)
            self._lexer.read_again()
        elif call.is_full:
            self._mean(call)

    def finish(self, *, cut: bool) -> None:
        """End the output: the call is meant, unless a limit has cut its thought."""
        call = self.call
        if call is not None and cut:
            self.call = None
            self._reader.enter(State.REASONING)
            self._calls.emit(ToolCallCut(None, call.marker + call.text))
        elif call is not None:
            self._mean(call)

    def _end_thought(self, call: ConsideredCall, end: int) -> None:
        """Show what was a thought as reasoning; give back what is after its `end`."""
        self.call = None
        self._reader.enter(State.REASONING)
        self._shown.show(call.marker + call.text[:end])
        self._lexer.give_back(call.text[end:])

    def _mean(self, call: ConsideredCall) -> None:
        """Read a call that is meant, and what waits after it."""
        self.call, self._are_meant = None, True
        self._reader.enter(State.REASONING)
        self._lexer.recount(call.reasoning_tokens)
        reused = self._reader.follow(call.marker)
        self._lexer.read_again(call.marker[len(call.marker) - reused :])
        for piece in call.pieces:
            self._lexer.feed(*piece)
