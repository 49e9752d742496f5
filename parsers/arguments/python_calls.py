"""Tool calls in Python's syntax: `[f(a=1, b="x"), g()]`."""

from __future__ import annotations

import re

from typing_extensions import override

from ...base.limits import MAX_BEGINNING, MAX_TOOL_NAME
from .incremental_grammar import OuterGrammar, Status, skip_space
from .ledger import Slip
from .python_values import PythonValue
from .python_words import VALUE_START, begins_literal
from .tool_calls import ToolCallEmitter
from .value_between_tags import UNDECLARED

_SPACE = " \t\r\n"
_BETWEEN_CALLS = re.compile(r"[ \t\r\n,;]+")
_BETWEEN_ARGUMENTS = re.compile(r"[ \t\r\n,]+")
_NAME = re.compile(r"[^\W\d][\w.\-]*")
_KEYWORD = re.compile(r"([^\W\d]\w*)\s*=(?!=)")
_WORD = re.compile(r"[^\W\d]\w*\s*")


class PythonCallGrammar(OuterGrammar):
    """Reads calls whose arguments are literals; each value streams as JSON. Nothing is evaluated.

    Text is a call once its first argument begins as a literal, or its parenthesis closes. After
    that, an argument that is not a literal becomes a string (`PythonValue`). A positional
    argument gets the name that the schema declares for its position, else its number.

    bracketed: the calls are in a list whose bracket ends them. Otherwise each call is on its own
        line.
    declared_only: before the first call of a declared function nothing else is a call.

    Holds back the beginning of a call, at most `MAX_BEGINNING` characters, an argument's name, at
    most `MAX_TOOL_NAME`, and what `PythonValue` holds back.
    """

    _value: PythonValue
    _follows = ")"

    def __init__(
        self, calls: ToolCallEmitter, *, bracketed: bool, declared_only: bool = False
    ) -> None:
        self._calls = calls
        self._declared_only = declared_only
        self._bracketed = bracketed
        self._state = self._start if bracketed else self._between
        self._position = 0
        self._value = PythonValue(calls.arguments)

    @property
    @override
    def in_argument(self) -> bool:
        return self._calls.open

    @override
    def take_unexpected(self, char: str) -> None:
        if self._state == self._in_value:
            self._value.take_unexpected(char)
        elif self._state == self._between:
            self.status = Status.NOT_A_CALL
        else:
            self._calls.stray(char)

    @override
    def close(self) -> None:
        if self._state == self._in_value:
            if self._value.started:
                self._value.close()
            else:
                self._calls.lack_value()
        if self._state in (self._in_value, self._argument) and self._value.ends_with(")"):
            self._calls.malformed("invalid_json")  # perhaps it is the parenthesis that is missing
        self._calls.end()
        is_call = self._calls.index >= 0 or not self._bracketed
        self.status = Status.DONE if is_call else Status.NOT_A_CALL

    def _start(self, text: str, position: int) -> int:
        if text[position] in _SPACE:
            return position + 1
        if text[position] != "[":
            self.status = Status.NOT_A_CALL
            return position
        self._state = self._between
        return position + 1

    def _between(self, text: str, position: int) -> int:
        if (space := _BETWEEN_CALLS.match(text, position)) is not None:
            position = space.end()
            if position == len(text):
                return position
        if text[position] == "]" and self._bracketed:
            self.status = Status.DONE if self._calls.index >= 0 else Status.NOT_A_CALL
            return position + 1
        return self._name(text, position)

    def _name(self, text: str, position: int) -> int:
        """Read a function's name and the parenthesis after it."""
        match = _NAME.match(text, position)
        if match is None or match.end() - position > MAX_TOOL_NAME:
            return self._refuse(position)
        beginning = text[position : position + MAX_BEGINNING]
        final = self._final or len(beginning) == MAX_BEGINNING
        is_call = self._begins_call(beginning, match.end() - position, final=final)
        if is_call is None:
            return position
        if not is_call:
            return self._refuse(position)
        self._declared_only = False
        self._calls.start(match.group())
        self._position = 0
        self._state = self._argument
        return match.end() + 1

    def _begins_call(self, text: str, end: int, *, final: bool) -> bool | None:
        """Whether `text` begins with a call; None if that needs more text.

        end: where the function's name ends.
        """
        if end == len(text):
            return False if final else None
        name, functions = text[:end], self._calls.functions
        may_be_name = name in functions or (not self._declared_only and functions.may_be_name(name))
        if text[end] != "(" or not may_be_name:
            return False
        start = skip_space(text, end + 1)
        if start < len(text) and text[start] == ")":
            return True
        return _begins_argument(text, start, final=final)

    def _refuse(self, position: int) -> int:
        """Stop before text that is not a call."""
        self.status = Status.NOT_A_CALL if self._calls.index < 0 else Status.UNEXPECTED
        return position

    def _argument(self, text: str, position: int) -> int:
        """Read the text before an argument, or the end of the call."""
        if (space := _BETWEEN_ARGUMENTS.match(text, position)) is not None:
            position = space.end()
            if position == len(text):
                return position
        if text[position] == "#":
            return self._comment(text, position)
        if text[position] == ")":
            self._calls.end()
            self._state = self._between
            return position + 1
        return self._argument_name(text, position)

    def _comment(self, text: str, position: int) -> int:
        """Skip a comment; one without its end is dropped as it comes."""
        end = text.find("\n", position)
        self._state = self._argument if end >= 0 else self._comment
        return len(text) if end < 0 else end + 1

    def _argument_name(self, text: str, position: int) -> int:
        """Read an argument's keyword, or begin a positional argument."""
        match = _KEYWORD.match(text, position)
        word = match or _WORD.match(text, position)
        if (
            word is not None
            and word.end() == len(text) <= position + MAX_TOOL_NAME
            and not self._final
        ):
            return position  # "=" may follow, or "==", which makes this a comparison
        if match is not None:
            self._begin_argument(match.group(1))
            return match.end()
        if VALUE_START.match(text, position) is None:
            self.status = Status.UNEXPECTED
        else:
            self._begin_argument(self._positional_name(), positional=True)
        return position

    def _begin_argument(self, name: str, *, positional: bool = False) -> None:
        self._calls.member(name, is_literal=True)
        self._position += 1
        calls = self._calls
        names = list(self._calls.keys)
        if positional and names and name not in names:
            calls.malformed("invalid_key")
        schema = calls.schema.member(name)
        self._value = PythonValue(
            calls.arguments,
            names,
            positional=positional,
            malformed=calls.stops_repair,
            schema=schema if schema.declared else UNDECLARED["json"],
        )
        self._state = self._in_value

    def _positional_name(self) -> str:
        names = list(self._calls.keys)
        return names[self._position] if self._position < len(names) else str(self._position)

    def _in_value(self, text: str, position: int) -> int:
        if text[position] in ",)" and not self._value.started:
            self._calls.lack_value()
            self._state = self._argument
            return position
        position = self._value.read(text, position, final=self._final)
        self.status = self._value.status
        if self.status is Status.DONE:
            if self._value.has_inner_quotes:
                self._calls.ledger.note(Slip.QUOTE)
            self.status = Status.MORE
            self._state = self._argument
        return position


def _begins_argument(text: str, start: int, *, final: bool) -> bool | None:
    """Whether an argument with a literal begins at `start`; None if that needs more text."""
    keyword = _KEYWORD.match(text, start)
    word = keyword or _WORD.match(text, start)
    if word is not None and word.end() == len(text) and not final:
        return None
    start = start if keyword is None else skip_space(text, keyword.end())
    return begins_literal(text, start, final=final)
