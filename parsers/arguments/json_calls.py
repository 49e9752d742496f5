"""ToolCallEmitter as JSON: one object, an array of them, or several in a row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from .json_repair import IncrementalGrammar, JsonRepairer, Status
from .tool_calls import ToolCallEmitter

# Arguments that come before their name wait for it; a name or key that is longer is none.
MAX_WAITING = 1 << 16
MAX_NAME = 256

_SPACE = " \t\r\n"
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]")


@dataclass(frozen=True)
class CallKeys:
    """How a format spells a call object.

    name, arguments, id: keys of these. inside: keys whose object is read as if
    its members stood in the call itself (OpenAI's own form has "function").
    name_is_key: each member is a call, its key the name, its value the arguments.
    """

    name: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments", "parameters")
    id: tuple[str, ...] = ("id",)
    inside: tuple[str, ...] = ("function",)
    name_is_key: bool = False


class JsonCallGrammar(IncrementalGrammar):
    """Reads call objects; their arguments stream, the keys may come in any order.

    An array ends with its bracket; without one, further objects may follow
    behind a comma or semicolon, and anything else ends the calls.

    declared_only: the first call must be of a declared function, or it is none.

    What waits: a key or name; the arguments (at most `MAX_WAITING` characters)
    until the name is there.
    """

    def __init__(
        self, calls: ToolCallEmitter, keys: CallKeys, *, declared_only: bool = False
    ) -> None:
        self._calls = calls
        self._declared_only = declared_only
        self._keys = keys
        self._state = self._start
        self._in_array = False
        self._depth = 0
        self._key = ""
        self._id: str | None = None
        self._named = False
        self._began = False
        self._word: list[str] = []
        self._waiting: list[str] = []  # arguments without a name
        self._held_length = 0  # characters of both
        self._value = JsonRepairer(_drop)
        self._end_value: Callable[[], None] = self._skip

    @property
    def in_string(self) -> bool:
        """Whether the next character is text of a string, whatever it looks like."""
        return self._state == self._in_value and self._value.in_string

    def force(self, char: str) -> None:
        """Take the character that `read` got stuck at, if it is no marker."""
        self.status = Status.MORE
        if self._state == self._in_value:
            self._value.force(char)

    def close(self) -> None:
        """End what is open: the text ends inside the calls."""
        if self._state == self._in_value:
            self._value.close()
            self._take_value()
        self.status = Status.DONE

    def _start(self, text: str, position: int) -> int:
        """Read up to the first call."""
        char = text[position]
        if char in _SPACE:
            return position + 1
        if char == "[" and not self._in_array:
            self._in_array = True
            return position + 1
        if char in "{]" and (char == "{" or self._in_array):
            self._state = self._between
            return self._between(text, position)
        self.status = Status.NOT_A_CALL
        return position

    def _between(self, text: str, position: int) -> int:
        """Read what stands between the calls."""
        char = text[position]
        if char == "{":
            self._id = None
            self._named = self._began = False
            self._depth = 1
            self._state = self._member
        elif char == "]" and self._in_array:
            self.status = Status.DONE
        elif char not in _SPACE and char not in ",;":
            self.status = Status.UNEXPECTED if self._in_array else Status.DONE
            return position
        return position + 1

    def _member(self, text: str, position: int) -> int:
        char = text[position]
        if char == "}":
            self._depth -= 1
            if not self._depth:
                self._end_call()
                self._state = self._between
            return position + 1
        if char in _SPACE or char == ",":
            return position + 1
        if char not in "\"'":
            self.status = Status.UNEXPECTED
            return position
        self._begin_value(self._hold, self._take_key)
        return position

    def _colon(self, text: str, position: int) -> int:
        char = text[position]
        if char in _SPACE or char == ":":
            return position + 1
        self._state = self._member_value
        return self._member_value(text, position)

    def _member_value(self, text: str, position: int) -> int:
        char, keys = text[position], self._keys
        if self._key in keys.inside and char == "{":
            self._depth += 1
            self._state = self._member
            return position + 1
        if keys.name_is_key:
            self._start_call(self._key)
        if self._key in keys.arguments or keys.name_is_key:
            if char in "\"'":
                # The object as a string that holds its JSON.
                inside = _Unquoted(self._arguments)
                self._begin_value(inside, inside.finish)
            else:
                self._begin_value(self._arguments, self._skip)
        elif self._key in keys.name:
            self._begin_value(self._hold, self._take_name)
        elif self._key in keys.id:
            self._begin_value(self._hold, self._take_id)
        else:
            self._begin_value(_drop, self._skip)
        return position

    def _in_value(self, text: str, position: int) -> int:
        value = self._value
        position = value.read(text, position, final=self._final)
        if value.status is Status.DONE:
            self._take_value()
        elif value.status is Status.UNEXPECTED:
            self.status = Status.UNEXPECTED
        elif self._held_length > MAX_WAITING:
            self.status = Status.NOT_A_CALL
        return position

    def _begin_value(self, out: Callable[[str], None], end: Callable[[], None]) -> None:
        self._value = JsonRepairer(out)
        self._end_value = end
        self._state = self._in_value

    def _take_value(self) -> None:
        self._state = self._member
        self._end_value()

    def _take_word(self) -> str:
        word, self._word = "".join(self._word), []
        self._held_length -= len(word)
        return str(json.loads(word))

    def _take_key(self) -> None:
        self._key = self._take_word()
        self._state = self._colon

    def _take_id(self) -> None:
        self._id = self._take_word()

    def _take_name(self) -> None:
        self._start_call(self._take_word())

    def _start_call(self, name: str) -> None:
        if len(name) > MAX_NAME or (self._declared_only and not self._calls.declares(name)):
            self.status = Status.NOT_A_CALL
            return
        self._declared_only = False
        self._named = True
        self._calls.start(name, self._id)
        waiting, self._waiting = self._waiting, []
        for text in waiting:
            self._held_length -= len(text)
            self._calls.arguments(text)

    def _end_call(self) -> None:
        if self._named:
            self._calls.end()
        elif not self._keys.name_is_key:
            self.status = Status.NOT_A_CALL

    def _arguments(self, piece: str) -> None:
        if not self._began and piece == "null":
            return  # the same as none at all
        self._began = True
        if self._named:
            self._calls.arguments(piece)
        else:
            self._waiting.append(piece)
            self._held_length += len(piece)

    def _hold(self, piece: str) -> None:
        self._word.append(piece)
        self._held_length += len(piece)

    def _skip(self) -> None:
        """Do nothing with a value that is of no interest, or that went out as it came."""


class _Unquoted:
    """Takes a JSON string in pieces; what the string holds goes on to a `JsonRepairer`."""

    def __init__(self, out: Callable[[str], None]) -> None:
        self._literal = JsonRepairer(out)
        self._held = ""
        self._surrogate = ""

    def __call__(self, piece: str) -> None:
        if piece == '"':
            return
        if _HIGH_SURROGATE.match(piece):
            self._surrogate = piece
            return
        text = self._held + json.loads(f'"{self._surrogate}{piece}"')
        self._surrogate = ""
        if self._literal.status is not Status.DONE:
            self._held = self._literal.read_through(text)

    def finish(self) -> None:
        """Give out what waits: the string ends here."""
        if self._literal.status is not Status.DONE:
            self._literal.read(self._held, final=True)
            self._literal.close()


def _drop(piece: str) -> None:
    """Take the pieces of a value that is of no interest."""
