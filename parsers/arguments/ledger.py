"""The ledger of one call: each slip in its source, noted where it is read.

A slip of `Slip` need not leave the call open: the output proves what was meant. Where the call
ends, `ToolCallEmitter.end` reads the ledger, the one place where it is decided whether the call is
complete. A slip that only a guess explains (`Malformation`) leaves it open at once.
"""

from __future__ import annotations

import enum


class Slip(enum.Enum):
    """A slip that later output may explain.

    MARK: a mark is missing or doubled; the call needs its required parameters then.
    VALUE_END: a value has no end of its own.
    QUOTE: a string in Python's syntax has a quote that may be its end.
    CALL_END: the next call, or the end of the output, comes before the call's own end.
    """

    MARK = enum.auto()
    VALUE_END = enum.auto()
    QUOTE = enum.auto()
    CALL_END = enum.auto()


class Ledger:
    """The members, the slips and the waiting text of one call.

    keys: of the members so far. is_malformed: the call stays open.
    slips: in its source.
    stray: marks and words between the parameters that wait. shows_stray: such text goes out.
    has_literals: the last value is a literal, with an end of its own.
    """

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.slips: set[Slip] = set()
        self.is_malformed = False
        self.stray = ""
        self.shows_stray = False
        self.has_literals = False

    def note(self, slip: Slip) -> None:
        """Note a slip."""
        self.slips.add(slip)

    def leave_open(self) -> bool:
        """Leave the call open for good; return False if it is so already."""
        is_new, self.is_malformed = not self.is_malformed, True
        return is_new

    def add_member(self, key: str, *, is_literal: bool) -> bool:
        """Note the next member; return whether its key is there already."""
        self.has_literals = is_literal
        is_doubled = key in self.keys
        self.keys.add(key)
        return is_doubled

    def add_stray(self, text: str) -> str:
        """Let text between parameters wait, without the white space in front; return all of it."""
        self.stray = (self.stray + text).lstrip()
        return self.stray

    def take_stray(self) -> str:
        """Return what waits, which waits no longer."""
        text, self.stray = self.stray, ""
        return text

    def show_stray(self) -> str:
        """Return what waits if the call stays open: it and all text after it go out."""
        self.shows_stray = self.is_malformed and bool(self.stray)
        return self.take_stray() if self.shows_stray else ""

    def drop_stray(self) -> None:
        """Drop marks, which are no part of any value: a slip."""
        if self.take_stray():
            self.note(Slip.MARK)
        self.shows_stray = False
