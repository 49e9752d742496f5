"""A parameter's key between quotes: the quote that opens it decides which end it has.

A key may hold any text but its own end. In `<parameter name="a>b">` the first `>` is part of the
key; in `<parameter name="a>text</parameter>` it is the end, whose quote is missing. So an end
without the quote is collected as text of the key. Any other marker, the limit of a key, or the end
of the output shows that it was the end, and what follows it is read again.
"""

from __future__ import annotations

from .call_reader import CallReader
from .format import VALUE_STATES, Jump, State
from .lexer import Lexer, Reader
from .shown_text import ShownText


class QuotedKey:
    """Reads the ends of keys that a quote has opened."""

    def __init__(self, lexer: Lexer, call: CallReader, shown: ShownText, reader: Reader) -> None:
        self._lexer = lexer
        self._call = call
        self._shown = shown
        self._reader = reader

    def follow(self, marker: str, target: State | Jump) -> int | None:
        """Read a marker in a key; None if it is to be followed, else as `Reader.follow`."""
        call, quote = self._call, self._call.opened[-1]
        if quote not in "\"'" or (target in VALUE_STATES and marker[0] == quote):
            return None
        if target not in VALUE_STATES:
            return len(marker) if self.end() else None
        call.note_unquoted_end()
        return len(marker) - self._reader.take_text(marker)

    def end(self) -> bool:
        """End the key where its end stands without its quote, and give back what follows.

        Return False if there is no such end.
        """
        call, at = self._call, self._call.unquoted_end
        if at < 0:
            return False
        rest = call.collected[at:]
        found = max((end for end in self._lexer.markers if rest.startswith(end)), key=len)
        call.end_unquoted_key(found)
        self._reader.follow(found)
        self._lexer.give_back(rest.removeprefix(found))
        return True

    def finish(self) -> None:
        """End the output: a key without its quote has ended."""
        if self.end():
            self._lexer.read_again()
