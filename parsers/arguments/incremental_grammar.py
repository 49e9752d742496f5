"""The base of all grammars: a loop over states that read text."""

from __future__ import annotations

import abc
import enum
import re
from collections.abc import Callable, Sequence

from typing_extensions import override

_SPACE = re.compile(r"[ \t\r\n]*")


class Status(enum.Enum):
    """The result of reading a piece of text.

    MORE: the value continues. Text that was not taken must be passed again, with what follows.
    DONE: the value is complete.
    UNEXPECTED: the next character cannot be part of the value; a marker may begin there.
    NEXT_CALL: a call may begin here. If NOT_A_CALL follows before it has begun, it becomes text.
    NOT_A_CALL: the text read so far, or since NEXT_CALL, is not a call.
    """

    MORE = enum.auto()
    DONE = enum.auto()
    UNEXPECTED = enum.auto()
    NEXT_CALL = enum.auto()
    NOT_A_CALL = enum.auto()


class IncrementalGrammar(abc.ABC):
    """Reads a value whose own syntax determines its end, in pieces of any size.

    A state is a method that reads from a position and returns the new position. If neither
    position nor state changes, the state needs more text.
    """

    _state: Callable[[str, int], int]
    _final = False
    _held: Sequence[str] = ()  # waiting JSON text, in pieces
    status = Status.MORE

    @property
    def held(self) -> str:
        """The text or JSON that was read and is held back, for display."""
        return "".join(self._held)

    @property
    @abc.abstractmethod
    def in_string(self) -> bool:
        """Whether the next character belongs to a string, even if it begins a marker."""

    @property
    def string_end(self) -> tuple[str, str]:
        """The mark that closes the open string, and characters that may follow it."""
        return '"', ""

    @property
    @abc.abstractmethod
    def in_argument(self) -> bool:
        """Whether a value of a call has begun but not ended."""

    def take_run(self, text: str) -> bool:
        """Take `text` if all of it is plain text of the open string; return whether it was taken.

        It may be False for any text; `read` takes everything.
        """
        return False

    @abc.abstractmethod
    def take_unexpected(self, char: str) -> None:
        """Take the character at which `read` stopped, after the caller found no marker there.

        Sets `status` to NOT_A_CALL instead if the calls end before the character.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Complete the JSON text: the input has ended.

        Sets `status` to DONE, or to NOT_A_CALL if the text is not a call.
        """

    def read(self, text: str, start: int = 0, *, final: bool = False) -> int:
        """Read `text` from `start`; set `status`; return the end of the text taken.

        final: no text follows, so everything that waits has ended.
        """
        self.status = Status.MORE
        self._final = final
        position, end = start, len(text)
        while position < end:
            state = self._state
            before, position = position, state(text, position)
            if self.status is not Status.MORE or (position == before and self._state == state):
                break
        return position


class OuterGrammar(IncrementalGrammar):
    """Reads calls whose values another grammar reads, `_value`, in the state `_in_value`.

    _follows: characters that may follow a string, beside those that the value's grammar names.
    """

    _value: IncrementalGrammar
    _follows = ""

    @abc.abstractmethod
    def _in_value(self, text: str, position: int) -> int:
        """Let the value's grammar read."""

    @property
    @override
    def in_string(self) -> bool:
        return self._state == self._in_value and self._value.in_string

    @property
    @override
    def string_end(self) -> tuple[str, str]:
        quote, follows = self._value.string_end
        return quote, follows + self._follows

    @property
    @override
    def held(self) -> str:
        return self._value.held

    @override
    def take_run(self, text: str) -> bool:
        # Before it has begun, and after its end, a value takes no run.
        return self._value.take_run(text)


def skip_space(text: str, position: int) -> int:
    """Return the position of the first character at or after `position` that is not white space."""
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def partial_length(text: str, mark: str, start: int = 0) -> int:
    """Return the length of the end of `text[start:]` that may be the beginning of `mark`.

    A complete `mark` does not count.
    """
    at = text.find(mark[0], max(start, len(text) - len(mark) + 1))
    while at >= 0 and not mark.startswith(text[at:]):
        at = text.find(mark[0], at + 1)
    return len(text) - at if at >= 0 else 0
