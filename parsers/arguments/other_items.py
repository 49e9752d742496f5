"""Items of a list of calls that are no calls: such an item costs itself alone."""

from __future__ import annotations

import abc
import re

from typing_extensions import override

from .incremental_grammar import OuterGrammar, Status

# Text in which neither a marker nor the end of an item begins.
_RUN = re.compile(r"\w+|[ \t\r]+")


class OtherItem:
    """Finds the end of an item that is no call, by its brackets and strings.

    ends: characters in front of which it ends, outside brackets and strings.
    closes: the bracket that closes its first one ends it.
    depth: how many brackets are open.
    """

    def __init__(self, ends: str, *, closes: bool = False, depth: int = 0) -> None:
        self._ends = ends
        self._closes = closes
        self._depth = depth
        self._quote = ""
        self._last = ""
        self.has_ended = False

    def read_run(self, text: str, position: int) -> int:
        """Read text without marks; return the position after it."""
        match = _RUN.match(text, position)
        if match is None:
            return position
        self._last = text[match.end() - 1]
        return match.end()

    def ends_before(self, char: str) -> bool:
        """Whether it ends in front of `char`, a mark; it has one character at least."""
        is_inside = self._depth > 0 or bool(self._quote) or not self._last
        return self.has_ended or (not is_inside and char in self._ends)

    def take(self, char: str) -> None:
        """Take a mark."""
        is_escaped = bool(self._quote) and self._last == "\\"
        is_apostrophe = self._last.isalnum()
        self._last = " " if is_escaped else char
        if is_escaped:
            return
        if self._quote:
            self._quote = "" if char == self._quote else self._quote
        elif char in "\"'":
            self._quote = "" if is_apostrophe else char
        elif char in "{[(":
            self._depth += 1
        elif char in "}])" and self._depth:
            self._depth -= 1
            self.has_ended = self._closes and not self._depth


class ListGrammar(OuterGrammar):
    """Reads calls in succession, between which other items may stand.

    _may_skip: the item at which the grammar has stopped may be skipped.
    """

    _may_skip = False
    _other = OtherItem("")

    @abc.abstractmethod
    def _between(self, text: str, position: int) -> int:
        """Read the text between calls."""

    @abc.abstractmethod
    def _begin_other(self) -> OtherItem:
        """Return what reads the item that may be skipped."""

    @override
    def skip_item(self) -> bool:
        if self._may_skip:
            self._other = self._begin_other()
            self._state = self._other_item
        return self._may_skip

    def _other_item(self, text: str, position: int) -> int:
        """Read an item that is no call; stop at each mark, where a marker may begin."""
        end = self._other.read_run(text, position)
        if self._other.ends_before(text[position]):
            self._state = self._between
            return position
        self.status = Status.SKIPPED if end > position else Status.UNEXPECTED
        return end

    def _take_other(self, char: str) -> None:
        """Take a mark of an item that is no call, in which no marker begins."""
        self._other.take(char)
        self.status = Status.SKIPPED
