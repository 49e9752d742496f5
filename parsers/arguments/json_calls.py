"""Tool calls as JSON: one object, an array of objects, or several objects in succession."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from typing_extensions import override

from ...base.limits import MAX_TOOL_NAME, MAX_WAITING_CALL
from ..events import Malformation
from .incremental_grammar import OuterGrammar, Status
from .json_in_string import JsonInString
from .json_repair import JsonRepairer
from .json_text import WriteJson, escape_json
from .tool_calls import ToolCallEmitter
from .typed_json import TypedJson

_SPACE = " \t\r\n"
_KEY = re.compile(r"\w[\w \-]*")
# Keys of call objects that calls do not need.
_OTHER_KEYS = frozenset({"type", "index", "thought", "thoughts"})


@dataclass(frozen=True)
class CallKeys:
    """The keys that a format uses in a call object.

    name, arguments, id: the keys of these.
    inside: keys whose object's members are read as the call's own, such as "function" in
        OpenAI's form.
    defines: keys of a function's definition, which is no call.
    name_is_key: each member is a call: its key is the name, its value the arguments.
    """

    name: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments", "parameters")
    id: tuple[str, ...] = ("id",)
    inside: tuple[str, ...] = ("function",)
    defines: tuple[str, ...] = ()
    name_is_key: bool = False


class JsonCallGrammar(OuterGrammar):
    """Reads call objects with keys in any order; streams the arguments.

    An array ends with its bracket. Without an array, further objects may follow, separated by
    commas or semicolons; any other text ends the calls.

    An object is a call once its name is known and its arguments begin as an object (in a string
    or not), or once it ends without arguments. null and an empty string mean no arguments; if
    repeated, the first ones count. Without a name, or with other arguments, it is not a call.

    declared_only: before the first call of a declared function nothing else is a call, and a key
        that no call has shows that the text is an answer.

    Holds back what `JsonRepairer` does. An object that is not known to be a call after
    `MAX_WAITING_CALL` characters is not a call.
    """

    _value: JsonRepairer
    _follows = "}:"

    def __init__(
        self, calls: ToolCallEmitter, keys: CallKeys, *, declared_only: bool = False
    ) -> None:
        self._calls = calls
        self._declared_only = declared_only
        self._keys = keys
        self._state = self._start
        self._in_array = False
        self._depth = 0
        self._in_arguments = False
        self._announced = False
        self._word: list[str] = []
        self._value = JsonRepairer(_drop)
        self._end_value: Callable[[], None] = self._skip
        self._new_call()

    def _new_call(self) -> None:
        self._key = ""
        self._id: str | None = None
        self._name: str | None = None
        self._is_undeclared = False  # its name is no declared function's
        self._has_arguments = False
        self._has_dropped = False  # a member that calls do not have
        self._begun = False
        self._waiting: list[str] = []  # arguments whose name is not yet known
        self._length = 0  # characters read before the call began

    @property
    @override
    def in_argument(self) -> bool:
        return self._in_arguments

    @override
    def take_run(self, text: str) -> bool:
        return self._begun and self._state == self._in_value and self._value.take_run(text)

    @override
    def take_unexpected(self, char: str) -> None:
        self.status = Status.MORE
        if self._state == self._in_value:
            self._value.take_unexpected(char)
            self._count(1)
        elif self._state == self._between or not self._begun:
            self.status = Status.NOT_A_CALL

    @override
    def close(self) -> None:
        self.status = Status.DONE
        if is_value_open := self._state == self._in_value:
            self._value.close()
            self._take_value()
        self._lack_brace(is_value_open=is_value_open)
        if self._state not in (self._start, self._between) and not self._begun:
            self._begin_call()
            if self._begun and self._calls.required:
                self._calls.malformed("missing_parameter")

    def _start(self, text: str, position: int) -> int:
        """Read up to the first call."""
        char = text[position]
        if char in _SPACE:
            self._count(1)
            return position + 1
        if char == "[" and not self._in_array:
            self._in_array = True
            return position + 1
        if char == "{":
            self._state = self._between
        elif char == "]" and self._in_array and not self._declared_only:
            self.status = Status.DONE  # an empty list
            return position + 1
        else:
            self.status = Status.NOT_A_CALL
        return position

    def _between(self, text: str, position: int) -> int:
        char = text[position]
        if char == "{":
            if not self._announce():
                return position
            self._new_call()
            self._depth = 1
            self._announced = self._keys.name_is_key  # with its first member
            self._state = self._member
        elif char == "]" and self._in_array:
            self.status = Status.DONE
        elif char not in _SPACE and char not in ",;" and not (char == "}" and self._begun):
            self.status = Status.UNEXPECTED if self._in_array else Status.DONE
            return position
        return position + 1

    def _announce(self) -> bool:
        """Stop once before a call, so that the caller can restore all of it as text."""
        self._announced = not self._announced
        if self._announced:
            self.status = Status.NEXT_CALL
        return not self._announced

    def _member(self, text: str, position: int) -> int:
        char = text[position]
        if char == "}":
            self._depth -= 1
            self._announced = False
            if not self._depth:
                self._end_call()
                self._state = self._between
            return position + 1
        if char == "{" and self._begun:  # the next call's
            self._lack_brace()
            self._end_call()
            self._state = self._between
            return position
        if char in " \t\r\n,":
            self._count(1)
            return position + 1
        if char not in "\"'" and not char.isidentifier():
            self.status = Status.UNEXPECTED
        else:
            self._begin_key()
        return position

    def _lack_brace(self, *, is_value_open: bool = False) -> None:
        """Take an open call without its last brace, which may be the one in the last string."""
        if not self._depth or not self._begun:
            return
        if isinstance(self._value, TypedJson):
            self._value.end_without_bracket()
        if self._value.ends_with("}]"):
            self._calls.malformed("invalid_json")
            if not is_value_open and self._calls.stops_repair is not None:
                self._calls.arguments("}")  # the arguments are whole: only this shows the doubt

    def _begin_key(self) -> None:
        if not self._keys.name_is_key:
            self._begin_value(self._hold, self._take_key)
        elif self._announce():
            self._new_call()
            self._begin_value(self._hold, self._take_key)

    def _colon(self, text: str, position: int) -> int:
        char = text[position]
        if char in _SPACE or char == ":":
            self._state = self._member_value if char == ":" else self._colon
            self._count(1)
            return position + 1
        checks = self._calls.stops_repair is not None and not self._keys.name_is_key
        if checks and (char not in ",}" or _KEY.fullmatch(self._key) is None):
            self._leave_open(f'"{escape_json(self._key)}"')
        else:
            self._state = self._member if char in ",}" else self._member_value
        return position

    def _member_value(self, text: str, position: int) -> int:
        char, keys = text[position], self._keys
        if char in _SPACE:
            self._count(1)
            return position + 1
        if self._key in keys.inside and char == "{":
            self._depth += 1
            self._state = self._member
            return position + 1
        if keys.name_is_key:
            self._take_name(self._key)
        is_arguments = self._key in keys.arguments or keys.name_is_key
        self._in_arguments = is_arguments and not self._has_arguments
        if self._in_arguments:
            return self._begin_arguments(text, position)
        self._other_member(char)
        return position

    def _other_member(self, char: str) -> None:
        """Begin a member's value that is not the arguments. char: its first character."""
        keys = self._keys
        if self._key in keys.defines and not self._begun:
            self.status = Status.NOT_A_CALL
        elif self._key in keys.name and self._name is None and not self._is_undeclared:
            self._begin_value(self._hold, lambda: self._take_name(self._take_word()))
        elif self._key in keys.id:
            self._begin_value(self._hold, self._take_id)
        elif self._may_hold_arguments(char):
            self._leave_open(f'"{escape_json(self._key)}": ')
        elif self._declared_only and self._name is None and self._key not in _OTHER_KEYS:
            self.status = Status.NOT_A_CALL  # an answer in JSON
        else:
            self._has_dropped = True
            self._begin_value(_drop, self._skip)

    def _begin_arguments(self, text: str, position: int) -> int:
        """Begin the arguments: an object, or a string with one in it."""
        value = self._new_arguments()
        if text[position] in "\"'":
            inside = JsonInString(value, self._stray, lambda: value.started and value.stop())
            self._begin_value(inside, lambda: self._end_inside(inside))
        else:
            self._begin_value(self._arguments, self._skip)
            self._value = value
        return position

    def _end_inside(self, inside: JsonInString) -> None:
        """End arguments in a string; what follows malformed ones belongs to them."""
        inside.finish()
        if self._begun and self._calls.ledger.is_malformed:
            self._leave_open("")

    def _in_value(self, text: str, position: int) -> int:
        value, start = self._value, position
        position = value.read(text, position, final=self._final)
        if not self._begun:
            self._count(position - start)
        if value.status is Status.DONE:
            self._take_value()
        elif value.status is Status.UNEXPECTED and self.status is Status.MORE:
            self.status = Status.UNEXPECTED
        return position

    def _begin_value(self, write: WriteJson, end: Callable[[], None]) -> None:
        self._value = JsonRepairer(write)
        self._end_value = end
        self._state = self._in_value

    def _new_arguments(self) -> JsonRepairer:
        """Start reading arguments; they are typed if the function is already known."""
        if self._name is None:
            stop = self._stop_repair if self._calls.stops_repair else None
            return JsonRepairer(self._arguments, malformed=stop)
        return TypedJson(self._calls, self._arguments)

    def _stop_repair(self, kind: Malformation) -> None:
        """Leave a call open whose arguments are no JSON; without a name it is no call."""
        if self._begun:
            self._calls.malformed(kind)
        else:
            self.status = Status.NOT_A_CALL

    def _take_value(self) -> None:
        self._state = self._member
        self._in_arguments = False
        self._end_value()
        if self._keys.name_is_key and self._state != self._colon:
            self._end_call()

    def _take_word(self) -> object:
        word, self._word = "".join(self._word), []
        return json.loads(word or "null")

    def _take_key(self) -> None:
        self._key = str(self._take_word())
        self._state = self._colon

    def _may_hold_arguments(self, char: str) -> bool:
        """Whether a member that calls do not have holds what should be the arguments."""
        name, functions = self._name, self._calls.functions
        if name is None or self._has_arguments or not functions.required(name):
            return False
        return char in "{[" or self._key in functions.keys(name)

    def _leave_open(self, text: str) -> None:
        """Write the rest of a call as it is, from `text` on; without a name it is no call."""
        if not self._begun:
            self._begin_call()
        if self._begun:
            self._in_arguments = True
            self._begin_value(self._calls.arguments, self._skip)
            self._value = JsonRepairer(self._calls.arguments, malformed=self._calls.malformed)
            self._value.stop("invalid_key")
            self._calls.arguments(text)

    def _stray(self, text: str) -> None:
        """Take text after the arguments in their string."""
        if text.strip():
            self._stop_repair("extra_text")
            self._calls.stray(text)

    def _take_id(self) -> None:
        self._id = str(self._take_word())

    def _take_name(self, name: object) -> None:
        functions = self._calls.functions
        if (
            not isinstance(name, str)
            or not 0 < len(name) <= MAX_TOOL_NAME
            or not functions.may_be_name(name)
            or (self._declared_only and name not in functions)
        ):
            if self._declared_only:
                self._is_undeclared = True  # another key may show that it is an answer
            else:
                self.status = Status.NOT_A_CALL
            return
        self._name = name
        if self._has_arguments:
            self._begin_call()

    def _begin_call(self) -> None:
        if self._name is None or self.status is Status.NOT_A_CALL:
            self.status = Status.NOT_A_CALL
            return
        self._declared_only = False
        self._begun = True
        self._calls.start(self._name, self._id)
        waiting, self._waiting = self._waiting, []
        for text in waiting:
            self._calls.arguments(text)

    def _end_call(self) -> None:
        if not self._begun:
            self._begin_call()
            calls = self._calls
            if self._has_dropped and self._begun and calls.required:
                calls.malformed("invalid_key")
        self._calls.end()

    def _arguments(self, piece: str) -> None:
        if self._begun:
            self._calls.arguments(piece)
            return
        if not self._has_arguments:
            if piece in ("", "null"):
                return
            if piece != "{":
                self.status = Status.NOT_A_CALL
                return
            self._has_arguments = True
        self._waiting.append(piece)
        if self._name is not None:
            self._begin_call()
            if self._begun and isinstance(self._value, TypedJson):
                self._value.write_to(self._calls.arguments)  # not by way of this grammar

    def _count(self, length: int) -> None:
        """Count characters that were read; reject an object that waits too long."""
        self._length += length
        if self._length > MAX_WAITING_CALL and not self._begun:
            self.status = Status.NOT_A_CALL

    def _hold(self, piece: str) -> None:
        self._word.append(piece)

    def _skip(self) -> None:
        """End a value that was written or dropped in pieces."""


def _drop(piece: str) -> None:
    """Ignore a piece of a member that calls do not have."""
