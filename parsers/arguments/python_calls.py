"""ToolCallEmitter as Python writes them: `[f(a=1, b="x"), g()]`. Literals only; nothing is evaluated."""

from __future__ import annotations

import re

from .json_calls import MAX_NAME
from .json_repair import IncrementalGrammar, JsonRepairer, Status, quoted
from .tool_calls import ToolCallEmitter

_SPACE = " \t\r\n"
_NAME = re.compile(r"[^\W\d][\w.\-]*")
_KEY = re.compile(r"([^\W\d]\w*)\s*=(?!=)")
_VALUE = re.compile(r"[\w\"'{\[(.+\-]")
_WORD = re.compile(r"[^\W\d]\w*\s*")


class PythonCallGrammar(IncrementalGrammar):
    """Reads calls with keyword arguments; each argument's value streams as JSON.

    bracketed: the calls stand in a list, whose bracket ends them. If not, they
    follow one another on lines of their own, and what cannot be one ends them.
    declared_only: the first call must be of a declared function, or it is none.
    A positional argument gets the name that the schema declares at its place,
    or its number.

    What waits: a name of at most `MAX_NAME` characters.
    """

    def __init__(
        self, calls: ToolCallEmitter, *, bracketed: bool, declared_only: bool = False
    ) -> None:
        self._calls = calls
        self._declared_only = declared_only
        self._bracketed = bracketed
        self._state = self._start if bracketed else self._between
        self._position = 0
        self._value = JsonRepairer(calls.arguments)

    @property
    def in_string(self) -> bool:
        """Whether the next character is text of a string, whatever it looks like."""
        return self._state == self._in_value and self._value.in_string

    def force(self, char: str) -> None:
        """Take the character that `read` got stuck at, if it is no marker."""
        if self._state == self._in_value:
            self._value.force(char)

    def close(self) -> None:
        """End what is open: the text ends inside the calls."""
        if self._state == self._in_value:
            if not self._value.started:
                self._calls.arguments("null")
            self._value.close()
        self._calls.end()
        self.status = Status.DONE

    def _start(self, text: str, position: int) -> int:
        if text[position] in _SPACE:
            return position + 1
        if text[position] != "[":
            self.status = Status.NOT_A_CALL
            return position
        self._state = self._between
        return position + 1

    def _between(self, text: str, position: int) -> int:
        """Read what stands between the calls, and a call's name."""
        char = text[position]
        if char in _SPACE or char in ",;":
            return position + 1
        if char == "]" and self._bracketed:
            self.status = Status.DONE if self._calls.index >= 0 else Status.NOT_A_CALL
            return position + 1
        match = _NAME.match(text, position)
        if match is None or match.end() - position > MAX_NAME:
            self.status = Status.NOT_A_CALL if self._calls.index < 0 else Status.UNEXPECTED
            return position
        if match.end() == len(text):
            return position if not self._final else self._no_call(position)
        if text[match.end()] != "(" or (
            self._declared_only and not self._calls.declares(match.group())
        ):
            return self._no_call(position)
        self._declared_only = False
        self._calls.start(match.group())
        self._position = 0
        self._state = self._argument
        return match.end() + 1

    def _no_call(self, position: int) -> int:
        self.status = Status.NOT_A_CALL if self._calls.index < 0 else Status.UNEXPECTED
        return position

    def _argument(self, text: str, position: int) -> int:
        """Read what stands before an argument's value."""
        char = text[position]
        if char in _SPACE or char == ",":
            return position + 1
        if char == ")":
            self._calls.end()
            self._state = self._between
            return position + 1
        match = _KEY.match(text, position)
        longest = match or _WORD.match(text, position)
        at_end = longest is not None and longest.end() == len(text) and not self._final
        if at_end and len(text) - position <= MAX_NAME:
            return position
        if match is None and not _VALUE.match(text, position):
            self.status = Status.UNEXPECTED
            return position
        key = match.group(1) if match is not None else self._positional()
        self._calls.member(f'"{quoted(key)}"')
        self._position += 1
        self._value = JsonRepairer(self._calls.arguments)
        self._state = self._in_value
        return match.end() if match is not None else position

    def _positional(self) -> str:
        properties = self._calls.schema.get("properties")
        names = list(properties) if isinstance(properties, dict) else []
        return names[self._position] if self._position < len(names) else str(self._position)

    def _in_value(self, text: str, position: int) -> int:
        if text[position] in ",)" and not self._value.started:
            self._calls.arguments("null")
            self._state = self._argument
            return position
        position = self._value.read(text, position, final=self._final)
        self.status = self._value.status
        if self.status is Status.DONE:
            self.status = Status.MORE
            self._state = self._argument
        return position
