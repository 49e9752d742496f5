"""The lexer: cuts a model's output into markers and text.

How it works
------------
A marker is a fixed string of the model's syntax, `<tool_call>` for example. Each state of a format
has its own markers (`CompiledFormat.markers`); the text in between means whatever the state says.
The lexer passes both to its `Reader`, which moves it to another state with `look_for`.

There are two kinds of marker, and the tokenizer decides which kind one is:

- A marker that is one token of the vocabulary counts only as that token. The same characters as
  ordinary text are text: the model talks about the marker.
- Every other marker is found in the text by the state's `Scanner`, one regular expression for all
  markers of the state. A token that is part of such a marker is read as text in the states that
  have the marker.

A marker may be cut between two pieces of output. Text at the end of a piece that could be the
beginning of a marker waits in `held`, which is shorter than the longest marker, and is read again
in front of the next piece. `flush` reads it at once when nothing can follow it: before a marker
token and at the end of the output; `final` then selects the pattern without beginnings.

A state with a grammar is not scanned: the reader lets the grammar read, and asks for a marker
only where the grammar stops (`take_marker`). A grammar may `hold` text as well; its own limits
bound the length. A marker token in an open string is an `UndecidedMarker`, and the output after it
waits, until it is clear whether the token is part of the string.

The reader may `give_back` text, to be read again in the state that it has entered meanwhile. Every
character is scanned once, plus once for each time it was held back or given back.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..base.limits import MAX_WORD
from .arguments.incremental_grammar import IncrementalGrammar
from .compiled_format import FENCE, CompiledFormat
from .format import (
    REASONING_STATES,
    TEXT_STATES,
    VALUE_STATES,
    State,
    Target,
    target_state,
)
from .held_back import HeldText, Why, hold
from .marker_in_string import Piece, UndecidedMarker
from .scanner import Scanner
from .unended_value import UnendedValue

_NO_MARKERS: Mapping[str, Target] = {}


class Reader(Protocol):
    """Moves from state to state by the markers and the text that a lexer finds."""

    def enter(self, state: State) -> None:
        """Go to `state`."""
        ...

    def take_text(self, text: str) -> int:
        """Take text without markers; return how much of it.

        Less than all if the rest has to be read in another state, which has been entered.
        """

    def read_grammar(self, grammar: IncrementalGrammar, text: str, position: int) -> int:
        """Let `grammar` read from `position` on; return the position it has reached."""

    def follow(self, marker: str) -> int:
        """Follow `marker` out of the state.

        Return how many characters at its end are text of the next state.
        """

    def end_value(self) -> None:
        """End a value that has no end of its own."""


class Lexer:
    """Cuts the output of one choice into the markers of the present state and text.

    search: finds a marker of the state in a piece of its text, or the beginning of one; None if it
        has no such markers, or a grammar.
    grammar: reads the text of the state in place of a search; None for states without.
    markers: of the state, each with its target.
    held: text that may be the beginning of a marker, or that the grammar waits with.
    final: nothing follows the text that is being read.
    undecided: a marker token in an open string, or ends of a call in a value.
    counts: the text that is being read is reasoning.
    reasoning_tokens: how many tokens of reasoning were read, without its markers.
    tokens_in_values: the marker tokens that were text of a call's values.
    """

    def __init__(self, table: CompiledFormat, reader: Reader) -> None:
        self._table = table
        self._reader = reader
        self._state: State
        self.markers: Mapping[str, Target]
        self._again = ""
        self._scanner: Scanner | None = None
        self.search: Callable[[str], object] | None = None
        self.grammar: IncrementalGrammar | None = None
        self.held = ""
        self.final = False
        self.counts = False
        self.undecided: UndecidedMarker | UnendedValue | None = None
        self.reasoning_tokens = 0
        self.tokens_in_values: set[str] = set()

    def use(self, table: CompiledFormat) -> None:
        """Look for the markers of `table` from now on, another form of the same calls."""
        self._table = table

    def look_for(self, state: State, grammar: IncrementalGrammar | None = None) -> None:
        """Look for the markers of `state` from now on, whose text `grammar` reads, if any."""
        self._state = state
        self.markers = self._table.markers.get(state, _NO_MARKERS)
        self._scanner = self._table.scanners.get(state) if grammar is None else None
        self.search = None if self._scanner is None else self._scanner.running.search
        self.grammar = grammar
        self.counts = state in REASONING_STATES

    def recount(self, reasoning_tokens: int) -> None:
        """Count reasoning tokens from this number on: those after it are read again."""
        self.reasoning_tokens = reasoning_tokens

    def find_no_markers(self) -> None:
        """Pass all text on as text, until the next state."""
        self._scanner = self.search = None

    @property
    def held_text(self) -> list[HeldText]:
        """The text that waits, each part with the reason."""
        why: Why = "possible marker" if self.grammar is None else "unfinished value"
        undecided = "" if self.undecided is None else self.undecided.held
        return hold(why, self.held) + hold("marker in a string", undecided)

    # Pieces of output.

    def split(self, text: str, token_ids: Sequence[int]) -> list[Piece]:
        """Return a piece of output, or both its parts: text of earlier tokens, and a marker token.

        The detokenizer may have kept such text.
        """
        marker = self._table.ids.get(token_ids[0]) if token_ids else None
        left = text.removesuffix(marker) if marker is not None else ""
        return [(left, ()), (text[len(left) :], token_ids)] if left else [(text, token_ids)]

    def feed(self, text: str, token_ids: Sequence[int]) -> None:
        """Read a piece of output, one of `split`, or decide what a marker token was."""
        pieces = deque([(text, token_ids)])
        while pieces:
            self._read_next(pieces)

    def finish(self, *, cut: bool) -> None:
        """End the output: an undecided marker has ended the call, unless a limit has cut it."""
        while (undecided := self.undecided) is not None:
            if cut:
                self.held += undecided.held
                self.undecided = None
                return
            for piece in self._decide(undecided, has_ended=True):
                self.feed(*piece)

    def _read_next(self, pieces: deque[Piece]) -> None:
        """Read the next of `pieces`, which what it decides may give back to them."""
        text, token_ids = pieces.popleft()
        marker = self._table.ids.get(token_ids[0]) if token_ids else None
        undecided, grammar = self.undecided, self.grammar
        if undecided is not None:
            has_ended = undecided.add((text, token_ids), marker)
            if has_ended is not None:
                pieces.extendleft(reversed(self._decide(undecided, has_ended=has_ended)))
        elif marker is None:
            self._read_text(text, token_ids)
        elif len(token_ids) > 1:
            raise ValueError(f"the marker token {token_ids[0]} ({marker!r}) must be fed alone")
        elif grammar is not None and grammar.in_string and marker in self.markers:
            self.undecided = UndecidedMarker(marker, text, grammar.string_end)
        else:
            self._read_token(marker, text)

    def _decide(self, undecided: UndecidedMarker | UnendedValue, *, has_ended: bool) -> list[Piece]:
        """Apply the verdict to the waiting marker; return the input still to read."""
        self.undecided = None
        if not has_ended:
            self._read_token_as_text(undecided.marker, undecided.text)
            return undecided.pieces
        if isinstance(undecided, UnendedValue):
            self._reader.end_value()
        self._read_token(undecided.marker, undecided.text, ends_string=True)
        return undecided.pieces

    def _read_text(self, text: str, token_ids: Sequence[int]) -> None:
        """Read a piece of text, or a marker token as text of a string."""
        if token_ids and self._table.alone:
            # Special tokens are hidden.
            part = self._table.parts.get(token_ids[0]) or self._table.ids.get(token_ids[0], "")
            text = text if text.endswith(part) else text + part
        if text:
            self.read(text)
        if self.counts:
            self.reasoning_tokens += len(token_ids)

    # Text.

    def count(self, tokens: int) -> None:
        """Count tokens of reasoning that the parser has read."""
        self.reasoning_tokens += tokens

    def read(self, text: str) -> None:
        """Read the next piece of text, after what was held back, unless a word goes on."""
        if self.held:
            is_word = text.isalnum()
            text = self.held + text
            self.held = ""
            if self.grammar is not None and is_word and len(text) < MAX_WORD and text[0] != "\\":
                self.held = text  # the grammar would wait with it, too
                return
        position = 0
        while position < len(text):
            if self.grammar is None:
                position = self._scan(text, position)
            else:
                position = self._reader.read_grammar(self.grammar, text, position)
            if self._again:
                text = self._again + text[position:]
                self._again = ""
                position = 0

    def give_back(self, text: str) -> None:
        """Have `text` read again in the present state, in front of the text not read yet."""
        self._again = text

    def read_again(self, rest: str = "") -> None:
        """Read what was given back, and `rest` after it."""
        again, self._again = self._again, ""
        self.read(again + rest)

    def hold(self, text: str, position: int) -> int:
        """Hold back `text` from `position` on until more of it is fed; return its end."""
        self.held = text[position:]
        return len(text)

    def flush(self) -> None:
        """Read what is held back: the text after it cannot complete a marker."""
        if not self.held:
            return
        self.final = True
        self.read("")
        self.final = False

    def drop_half_marker(self) -> str:
        """Drop what a limit has left of a marker after text, unless it reads as text.

        Return it if a call may begin with it.
        """
        held, half = self.held, self.held.strip()
        # After the marker that opens reasoning, a word is the rest of its header.
        is_word = half[:1].isalnum() and self._state is not State.REASONING_OPENED
        # Most of a marker that consists of words is not the beginning of a sentence.
        is_word = is_word and not any(
            marker.startswith(held) and len(held) > len(marker) / 2 for marker in self.markers
        )
        if not half or is_word or half[0] == FENCE[0]:
            return ""
        self.held = ""
        opens_call = any(
            marker.startswith(held) and target_state(target) not in TEXT_STATES
            for marker, target in self.markers.items()
        )
        return held if opens_call else ""

    def take_marker(self, text: str, position: int) -> int | None:
        """Follow the marker that begins at `position`, or hold back its beginning.

        Return the position reached; None if no marker begins there.
        """
        scanner = self._table.scanners.get(self._state)
        if scanner is None:
            return None
        pattern = scanner.final if self.final else scanner.running
        match = pattern.match(text, position)
        return None if match is None else self._take_match(text, match)

    def _scan(self, text: str, position: int) -> int:
        """Read up to the next marker of this state and follow it."""
        scanner = self._scanner
        match = None
        if scanner is not None:
            match = (scanner.final if self.final else scanner.running).search(text, position)
        end = len(text) if match is None else match.start()
        if end > position:
            taken = self._reader.take_text(text[position:end])
            if position + taken < end:
                return position + taken
        return end if match is None else self._take_match(text, match)

    def _take_match(self, text: str, match: re.Match[str]) -> int:
        """Follow a marker that was found, or hold back the beginning of one."""
        if match.lastindex:
            return self.hold(text, match.start())
        if match.group() not in self.markers:
            return self._await_end(match.group(), text, match.end())
        return match.end() - self._reader.follow(match.group())

    def _await_end(self, marker: str, text: str, position: int) -> int:
        """Let the end of a call in a value wait, and `text` from `position` on; return its end."""
        undecided = UnendedValue(self._table, marker, marker)
        rest = text[position:]
        if rest and undecided.add((rest, ()), None) is not None:
            self._reader.take_text(marker)
            return position
        self.undecided = undecided
        return len(text)

    # Marker tokens.

    def _read_token(self, marker: str, text: str, *, ends_string: bool = False) -> None:
        """Read a marker that is one token.

        ends_string: it ends the string that is open.
        text: the marker; empty if the tokenizer hides special tokens.
        """
        if not ends_string and self.grammar is not None and self.grammar.in_string:
            self._read_token_as_text(marker, text)
            return
        if self.held and self.held + marker in self.markers:
            marker, self.held = self.held + marker, ""
        if marker not in self.markers and self._read_in_value(marker, text):
            return
        self.flush()
        if marker not in self.markers:  # reading what was held back may have changed the state
            self._read_token_as_text(marker, text)
            return
        reused = self._reader.follow(marker)
        self.read_again()
        if reused == len(marker):
            self._read_token(marker, text)
        elif reused:
            self.read(marker[-reused:])

    def _read_in_value(self, marker: str, text: str) -> bool:
        """Read a marker token that the state does not have if it may belong to a value."""
        if self._state in VALUE_STATES and marker in self._table.call_ends:
            self.flush()
            self.tokens_in_values.add(marker)
            self.undecided = UnendedValue(self._table, marker, text)
            return True
        if self._state in VALUE_STATES or marker in self._table.grammar.quotes:
            # The token may be a part of the longer text that ends the value, or says where a
            # string has ended.
            self.tokens_in_values.add(marker)
            self.read(marker)
            return True
        return False

    def _read_token_as_text(self, marker: str, text: str) -> None:
        """Read a marker token that means nothing here.

        A hidden one shows only inside calls, or as a mark of reasoning that is not read.
        """
        if self._state in TEXT_STATES:
            text = text or (marker if marker in self._table.unread else "")
            while text:
                text = text[self._reader.take_text(text) :]
            return
        if self.grammar is not None:
            self.tokens_in_values.add(marker)
            self.read(marker)
        elif (taken := self._reader.take_text(marker)) < len(marker):
            # The marker is read whole: the part that was taken is not read a second time.
            self._again = self._again.removesuffix(marker[:taken])
            self.read_again()
            self._read_token(marker, text)
