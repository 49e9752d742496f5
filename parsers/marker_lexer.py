"""Finding markers: the lowest layer of `LinearParser`.

How it works
------------
A marker is a fixed string of the model's syntax, `<tool_call>` for example. Each state of a
format has its own markers (`CompiledFormat.markers`); text in between means whatever the state
says. The lexer cuts the output into markers and text, and hands both to two methods that the
layers above define: `_on_text` for text, `_follow` for a marker.

There are two kinds of marker, and the tokenizer decides which kind one is:

- A marker that is one token of the vocabulary counts only as that token. `_on_token` gets it.
  The same characters as ordinary text are text: the model talks about the marker.
- Every other marker is found in the text by the state's `Scanner`, one regular expression for all
  markers of the state. `_scan` hands over the text before the first match, then follows it. A
  token that is part of such a marker is read as text in the states that have the marker.

A marker may be cut between two pieces of output. Text at the end of a piece that could be the
beginning of a marker waits in `_held`, which is shorter than the longest marker, and is read
again in front of the next piece. `_flush` reads it at once when nothing can follow it: before a
marker token and at the end of the output; `_final` then selects the pattern without beginnings.

Some states are not scanned: a grammar reads them (`_step` is then another method). A grammar may
leave text in `_held` as well; its own limits bound the length.

A layer above may put text into `_rescan`: text already read that has to be read again in the
present state. The loop in `_read` puts it in front of the rest.

Every character is scanned once, plus once for each time it was held back or rescanned.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Mapping

from .compiled_format import CompiledFormat, Scanner
from .format import TEXT_STATES, VALUE_STATES, State, Target


class MarkerLexer(abc.ABC):
    """Cuts the output of one choice into the markers of the present state and text."""

    def __init__(self, table: CompiledFormat) -> None:
        self._table = table
        self._held = ""
        self._final = False
        self._rescan = ""
        self._state: State
        self._markers: Mapping[str, Target]
        self._scanner: Scanner | None
        # Reads text from a position on and returns the position it has reached.
        self._step: Callable[[str, int], int]

    @abc.abstractmethod
    def _on_text(self, text: str) -> int:
        """Take text without markers; return how much of it.

        Less than all if the rest has to be read in another state, which has been entered.
        """

    @abc.abstractmethod
    def _follow(self, marker: str) -> int:
        """Follow `marker` out of this state.

        Return how many characters at its end are text of the next state.
        """

    @abc.abstractmethod
    def _in_string(self) -> bool:
        """Whether even a marker token is text here."""

    def _look_for(self, state: State) -> None:
        """Scan for the markers of `state` from now on."""
        self._state = state
        self._markers = self._table.markers.get(state, {})
        self._scanner = self._table.scanners.get(state)
        self._step = self._scan

    def _read(self, text: str) -> None:
        """Read the next piece of text, after what was held back."""
        if self._held:
            text = self._held + text
            self._held = ""
        position = 0
        while position < len(text):
            position = self._step(text, position)
            if self._rescan:
                text = self._rescan + text[position:]
                self._rescan = ""
                position = 0

    def _scan(self, text: str, position: int) -> int:
        """Read up to the next marker of this state and follow it."""
        scanner = self._scanner
        match = None
        if scanner is not None:
            match = (scanner.final if self._final else scanner.running).search(text, position)
        end = len(text) if match is None else match.start()
        if end > position:
            taken = self._on_text(text[position:end])
            if position + taken < end:
                return position + taken
        return end if match is None else self._take_match(text, match)

    def _match_here(self, text: str, position: int) -> re.Match[str] | None:
        """Return the marker, or the beginning of a marker, that starts at `position`."""
        scanner = self._scanner
        if scanner is None:
            return None
        return (scanner.final if self._final else scanner.running).match(text, position)

    def _take_match(self, text: str, match: re.Match[str]) -> int:
        """Follow a marker that was found, or hold back the beginning of one."""
        if match.lastindex:
            self._held = match.group()
            return len(text)
        return match.end() - self._follow(match.group())

    def _on_token(self, marker: str, text: str, *, ends_string: bool = False) -> None:
        """Read a marker that is one token.

        ends_string: it ends the string that is open.
        text: the token's own text, after any text left over from the token before it; without
        the marker if the tokenizer hides special tokens.
        """
        if not ends_string and self._in_string():
            self._take_token_as_text(marker, text)
            return
        if marker not in self._markers:
            if self._state in VALUE_STATES:
                # The token may be a part of the longer text that ends the value.
                self._read(text if text.endswith(marker) else text + marker)
                return
            self._flush()
            if marker in self._markers:  # reading what was held back has changed the state
                self._on_token(marker, text)
            else:
                self._take_token_as_text(marker, text)
            return
        if lead := text.removesuffix(marker):
            self._read(lead)
        self._flush()
        if marker not in self._markers:
            self._take_token_as_text(marker, marker if text.endswith(marker) else "")
            return
        reused = self._follow(marker)
        self._read_again()
        if reused:
            self._read(marker[-reused:])

    def _take_token_as_text(self, marker: str, text: str) -> None:
        """Read a marker token that means nothing here; a hidden one shows only inside calls."""
        if self._state in TEXT_STATES:
            while text:
                text = text[self._on_text(text) :]
            return
        shown = text if text.endswith(marker) else text + marker
        if self._step != self._scan:
            self._read(shown)
        elif self._on_text(shown) < len(shown):
            self._read_again()
            self._on_token(marker, text)

    def _read_again(self) -> None:
        """Read what is to be read again, where no more text follows it yet."""
        again, self._rescan = self._rescan, ""
        self._read(again)

    def _flush(self) -> None:
        """Read what is held back: the text after it cannot complete a marker."""
        if not self._held:
            return
        self._final = True
        self._read("")
        self._final = False
