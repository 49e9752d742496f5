"""Tool calls as JSON: one object, an array of objects, or several objects in a row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from typing_extensions import override

from .incremental_grammar import IncrementalGrammar, Status
from .json_repair import JsonRepairer
from .json_text import WriteJson
from .tool_calls import MAX_NAME, ToolCallEmitter

# The most characters of arguments, keys and names that wait; a call with more is not a call.
MAX_WAITING = 1 << 16

_SPACE = " \t\r\n"
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]")


@dataclass(frozen=True)
class CallKeys:
    """The keys that a format uses in a call object.

    name, arguments, id: the keys that hold these.
    inside: keys whose object is read as if its members stood in the call itself, such as
        "function" in OpenAI's form.
    name_is_key: each member is a call; its key is the name, its value the arguments.
    """

    name: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments", "parameters")
    id: tuple[str, ...] = ("id",)
    inside: tuple[str, ...] = ("function",)
    name_is_key: bool = False


class JsonCallGrammar(IncrementalGrammar):
    """Reads call objects, with their keys in any order; the arguments stream.

    An array ends with its bracket. Without an array, further objects may follow, with commas or
    semicolons between them, and any other text ends the calls.

    declared_only: if the first call's function is not declared, the text is not a call.

    Holds back a key, name or id until it is complete, and arguments until the name is known:
    at most `MAX_WAITING` characters together, and what `JsonRepairer` holds back.
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
        self._has_name = False
        self._has_arguments = False
        self._in_arguments = False
        self._word: list[str] = []
        self._waiting: list[str] = []  # arguments whose name is not known yet
        self._held_length = 0  # of `_word` and `_waiting`, in characters
        self._value = JsonRepairer(_drop)
        self._end_value: Callable[[], None] = self._skip

    @property
    @override
    def in_string(self) -> bool:
        return self._state == self._in_value and self._value.in_string

    @property
    @override
    def string_end(self) -> tuple[str, str]:
        quote, follows = self._value.string_end
        return quote, follows + "}:"

    @property
    @override
    def in_argument(self) -> bool:
        return self._in_arguments

    @override
    def take_unexpected(self, char: str) -> None:
        self.status = Status.MORE
        if self._state == self._in_value:
            self._value.take_unexpected(char)

    @override
    def close(self) -> None:
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
            self._has_name = self._has_arguments = False
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
        self._in_arguments = self._key in keys.arguments or keys.name_is_key
        if self._in_arguments:
            if char in "\"'":
                inside = _JsonInString(self._arguments)
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
        if self._held_length > MAX_WAITING:
            self.status = Status.NOT_A_CALL
        elif value.status is Status.DONE:
            self._take_value()
        elif value.status is Status.UNEXPECTED:
            self.status = Status.UNEXPECTED
        return position

    def _begin_value(self, write: WriteJson, end: Callable[[], None]) -> None:
        self._value = JsonRepairer(write)
        self._end_value = end
        self._state = self._in_value

    def _take_value(self) -> None:
        self._state = self._member
        self._in_arguments = False
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
        self._has_name = True
        self._calls.start(name, self._id)
        waiting, self._waiting = self._waiting, []
        for text in waiting:
            self._held_length -= len(text)
            self._calls.arguments(text)

    def _end_call(self) -> None:
        if self._has_name:
            self._calls.end()
        elif not self._keys.name_is_key:
            self.status = Status.NOT_A_CALL

    def _arguments(self, piece: str) -> None:
        if not self._has_arguments and piece == "null":
            return  # null stands for no arguments
        self._has_arguments = True
        if self._has_name:
            self._calls.arguments(piece)
        else:
            self._waiting.append(piece)
            self._held_length += len(piece)

    def _hold(self, piece: str) -> None:
        self._word.append(piece)
        self._held_length += len(piece)

    def _skip(self) -> None:
        """End a value that was written or dropped piece by piece."""


class _JsonInString:
    """Reads arguments that the model wrote as a string of JSON.

    Called with the pieces of the JSON string, it writes the value that the string contains. Holds
    back half of a surrogate pair, and what `JsonRepairer` holds back.
    """

    def __init__(self, write: WriteJson) -> None:
        self._value = JsonRepairer(write)
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
        if self._value.status is not Status.DONE:
            self._held = self._value.read_through(text)

    def finish(self) -> None:
        """Write what is held back: the string ends here."""
        if self._value.status is not Status.DONE:
            self._value.read(self._held, final=True)
            self._value.close()


def _drop(piece: str) -> None:
    """Ignore a piece of a member that no call has."""
