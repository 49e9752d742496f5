"""Calls of models that write either Python or JSON, whichever they were asked for."""

from __future__ import annotations

import re

from typing_extensions import override

from .incremental_grammar import IncrementalGrammar, OuterGrammar
from .json_calls import CallKeys, JsonCallGrammar
from .python_calls import PythonCallGrammar
from .tool_calls import ToolCallEmitter

# The list's bracket, with white space.
_OPENING = re.compile(r"\[?\s*")
# Limit for it, before the first decisive character.
_MAX_BEGINNING = 1024


class CallListGrammar(OuterGrammar):
    """Reads a list of calls, or calls without its bracket: JSON if a brace comes first, or Python.

    Holds back at most `_MAX_BEGINNING` characters up to there, and what `JsonCallGrammar` or
    `PythonCallGrammar` holds back.
    """

    def __init__(
        self, calls: ToolCallEmitter, keys: CallKeys, *, declared_only: bool = False
    ) -> None:
        self._json = JsonCallGrammar(calls, keys, declared_only=declared_only)
        self._list = PythonCallGrammar(calls, bracketed=True, declared_only=declared_only)
        self._lines = PythonCallGrammar(calls, bracketed=False, declared_only=declared_only)
        self._value: IncrementalGrammar = self._list
        self._state = self._choose

    @property
    @override
    def in_argument(self) -> bool:
        return self._value.in_argument

    @override
    def take_unexpected(self, char: str) -> None:
        self._value.take_unexpected(char)
        self.status = self._value.status

    @override
    def close(self) -> None:
        self._value.close()
        self.status = self._value.status

    @override
    def read(self, text: str, start: int = 0, *, final: bool = False) -> int:
        # Most text is read after the choice, so skip the loop over states.
        if self._state == self._choose:
            return super().read(text, start, final=final)
        position = self._value.read(text, start, final=final)
        self.status = self._value.status
        return position

    def _choose(self, text: str, position: int) -> int:
        """Find the first character that is part of a call."""
        beginning = text[position : position + _MAX_BEGINNING]
        match = _OPENING.match(beginning)
        at = match.end() if match is not None else 0
        if at == len(beginning) < _MAX_BEGINNING and not self._final:
            return position
        if beginning[at : at + 1] == "{":
            self._value = self._json
        elif "[" not in beginning[: at + 1]:
            self._value = self._lines
        self._state = self._in_value
        return position

    def _in_value(self, text: str, position: int) -> int:
        position = self._value.read(text, position, final=self._final)
        self.status = self._value.status
        return position
