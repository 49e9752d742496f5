"""Arguments as Gemma writes them: bare keys, bare scalars, and marks around strings."""

from __future__ import annotations

import json
import re

from typing_extensions import override

from ..schema import ValueSchema
from .json_repair import MAX_WORD, JsonRepairer
from .json_text import escape_json, word_to_json
from .text_value import text_to_json
from .tool_calls import ToolCallEmitter

_KEY = re.compile(r"[^:,{}\[\]<\"'\n]+")
_VALUE = re.compile(r"[^,{}\[\]<]+")
# A key in a bare value: the comma in front of it was left out.
_NEXT_KEY = re.compile(r"[ \t\r\n][^\W\d]\w*[ \t]?:")
_KEY_BEHIND = re.compile(r"[^\W\d]\w{0,63}[ \t]?:")
_PARTIAL_KEY = re.compile(r"[^\W\d]\w{0,63}[ \t]?\Z")


class MarkedObject(JsonRepairer):
    """Writes an object of arguments whose bare values are typed by the declared schema.

    A bare key reaches to its colon, a bare value to a comma or bracket; both may contain spaces. A
    comma may be missing in front of a bare key.

    calls: the call, and what it declares. quotes: the marks around strings.

    Holds back bare text of at most `MAX_WORD` characters, and what `JsonRepairer` holds back.
    """

    def __init__(self, calls: ToolCallEmitter, quotes: tuple[str, ...]) -> None:
        super().__init__(calls.arguments, quotes)
        self._calls = calls
        self._schemas: list[ValueSchema | None] = []  # of the open brackets; None for the root
        self._last_key = ""
        self._key_text: list[str] = []

    @override
    def _value(self, text: str, position: int) -> int:
        position = self._white_space(text, position)
        if position < len(text) and text[position] in "{[(":
            self._schemas.append(self._find_schema() if self._closers else None)
        return super()._value(text, position)

    @override
    def _end_bracket(self, position: int) -> int:
        self._schemas.pop()
        return super()._end_bracket(position)

    @override
    def _emit(self, piece: str) -> None:
        super()._emit(piece)
        if self._in_key:
            self._key_text = []
            self._write = self._note_key

    def _note_key(self, piece: str) -> None:
        self._key_text.append(piece)
        self._calls.arguments(piece)

    @override
    def _end_value(self) -> None:
        if self._in_key:
            self._write = self._calls.arguments
            key = "".join(self._key_text)
            self._last_key = str(json.loads(f'"{key}')) if key else self._last_key
        super()._end_value()

    def _find_schema(self) -> ValueSchema:
        """Return what is declared for the next value."""
        parent = self._schemas[-1] if self._schemas else None
        if parent is None:
            return self._calls.value_schema(self._last_key)
        return parent.member(self._last_key if self._closers[-1] == "}" else "")

    @override
    def _word(self, text: str, position: int) -> int:
        match = (_KEY if self._in_key else _VALUE).match(text, position)
        if match is None or len(match.group()) > MAX_WORD:
            return super()._word(text, position)
        end = match.end()
        if end == len(text) and not self._final:
            return position
        if not self._in_key:
            if (next_key := _NEXT_KEY.search(text, position, end)) is not None:
                end = next_key.start()
            self._emit(self._read_value(text[position:end].strip()))
            self._end_value()
            return end
        if text[end : end + 1] != ":":
            return super()._word(text, position)
        self._last_key = match.group().strip()
        super()._emit(f'"{escape_json(self._last_key)}"')
        self._key_text = []
        self._end_value()
        return end

    def _read_value(self, text: str) -> str:
        schema = self._find_schema()
        return text_to_json(text, schema) if schema.declared else word_to_json(text)

    @override
    def _after(self, text: str, position: int) -> int:
        position = self._white_space(text, position)
        if position < len(text) and self._closers[-1] == "}":
            if not self._final and _PARTIAL_KEY.match(text, position) is not None:
                return position
            if _KEY_BEHIND.match(text, position) is not None:
                self._comma = ","
                self._state = self._key
                return position
        return super()._after(text, position)
