"""The base of all grammars: a loop over states that read text."""

from __future__ import annotations

import abc
import enum
import re
from collections.abc import Callable, Sequence

_SPACE = re.compile(r"[ \t\r\n]*")


class Status(enum.Enum):
    """The result of reading a piece of text.

    MORE: the value goes on. Text that was not taken must be given again, together with what
        follows it.
    DONE: the value is complete.
    UNEXPECTED: the next character cannot be part of the value; a marker may begin there.
    NEXT_CALL: a call may begin here. It becomes text if NOT_A_CALL follows before it has begun.
    NOT_A_CALL: the text read so far, or since NEXT_CALL, is not a call.
    """

    MORE = enum.auto()
    DONE = enum.auto()
    UNEXPECTED = enum.auto()
    NEXT_CALL = enum.auto()
    NOT_A_CALL = enum.auto()


class IncrementalGrammar(abc.ABC):
    """Reads text that ends by its own syntax, in pieces of any size.

    A state is a method that reads from a position and returns the position it has reached.
    If neither the position nor the state changes, the state waits for more text.
    """

    _state: Callable[[str, int], int]
    _final = False
    _held: Sequence[str] = ()  # JSON text that waits, in pieces
    status = Status.MORE

    @property
    def held(self) -> str:
        """The text or JSON that was read and waits for its end, for people."""
        return "".join(self._held)

    @property
    @abc.abstractmethod
    def in_string(self) -> bool:
        """Whether the next character belongs to a string, even if a marker begins there."""

    @property
    def string_end(self) -> tuple[str, str]:
        """The mark that closes the open string, and the characters that may follow it."""
        return '"', ""

    @property
    @abc.abstractmethod
    def in_argument(self) -> bool:
        """Whether a value of a call has begun and has not ended."""

    def take_run(self, text: str) -> bool:
        """Take `text` if all of it is plain text of the open string; return whether it was.

        It may say no to any text: `read` takes everything.
        """
        return False

    @abc.abstractmethod
    def take_unexpected(self, char: str) -> None:
        """Take the character at which `read` stopped, once the caller has found no marker there.

        Sets `status` to NOT_A_CALL instead if the calls end in front of the character.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Complete the JSON text: the input ends here.

        Sets `status` to DONE, or to NOT_A_CALL if the text turns out not to be one.
        """

    def read(self, text: str, start: int = 0, *, final: bool = False) -> int:
        """Read `text` from `start` and set `status`; return the position after the text taken.

        final: no text follows, so whatever waits for its end has ended.
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


def skip_space(text: str, position: int) -> int:
    """Return the position of the first character from `position` on that is not white space."""
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def partial_length(text: str, mark: str, start: int = 0) -> int:
    """Return how many characters at the end of `text[start:]` may be the beginning of `mark`.

    A complete `mark` does not count.
    """
    at = text.find(mark[0], max(start, len(text) - len(mark) + 1))
    while at >= 0 and not mark.startswith(text[at:]):
        at = text.find(mark[0], at + 1)
    return len(text) - at if at >= 0 else 0
