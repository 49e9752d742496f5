"""JSON arguments whose strings have the declared types: `{"n": "5"}` for an integer is 5."""

from __future__ import annotations

import json

from typing_extensions import override

from ...base.limits import MAX_HELD_STRING
from ..events import Malformation
from ..schema import ValueSchema
from .json_repair import JsonRepairer
from .json_text import WriteJson
from .object_keys import read_key
from .tool_calls import ToolCallEmitter
from .type_conversion import retype


class TypedJson(JsonRepairer):
    """Writes an object of arguments; converts strings where the schema requires another type.

    calls: the call, with its declared schema. write: takes the pieces of JSON text.
    quotes: as for `JsonRepairer`.

    Holds back such a string (at most `MAX_HELD_STRING` characters), and what `JsonRepairer` does.
    """

    def __init__(
        self,
        calls: ToolCallEmitter,
        write: WriteJson,
        quotes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(write, quotes, calls.stops_repair)
        self._calls = calls
        self._write_through = write
        self._schemas: list[ValueSchema | None] = []  # of the open brackets; None for the root
        self._last_key = ""
        self._lacking: set[str] | None = None  # the missing required parameters, from the first key
        self._text: list[str] = []  # of the key, or of a held-back string
        self._text_length = 0
        self._holds = False

    @property
    @override
    def held(self) -> str:
        return "".join(self._text) if self._holds else ""

    def _find_schema(self) -> ValueSchema:
        """Return the declared schema of the next value."""
        parent = self._schemas[-1] if self._schemas else None
        if parent is None:
            return self._calls.schema.member(self._last_key)
        return parent.member(self._last_key if self._closers[-1] == "}" else "")

    @override
    def _value(self, text: str, position: int) -> int:
        position = self._white_space(text, position)
        if position < len(text) and text[position] in "{[(":
            self._schemas.append(self._find_schema() if self._closers else None)
        return super()._value(text, position)

    @override
    def _key(self, text: str, position: int) -> int:
        if text[position] != '"':
            position = self._white_space(text, position)
        found = read_key(text, position, self._declares, final=self._final)
        if found is None:
            return super()._key(text, position)
        key, end, is_plain = found
        if key:
            self._emit(text[position:end] if is_plain else f'"{key}":')
            self._note_key(key)
            self._state = self._value
        return end

    def _note_key(self, key: str) -> None:
        self._last_key = key
        if len(self._closers) == 1:
            if self._lacking is None:
                self._lacking = self._required
            self._lacking.discard(key)

    def _declares(self, key: str) -> bool:
        """Whether the schema of the open object names `key`."""
        parent = self._schemas[-1]
        if parent is not None:
            return parent.has_property(key)
        calls = self._calls
        return key in calls.keys or calls.schema.root.has_property(key)

    @override
    def _end_bracket(self, position: int) -> int:
        self._schemas.pop()
        return super()._end_bracket(position)

    @override
    def close(self) -> None:
        if self._closers:  # nothing of the model's ends the object
            self.end_without_bracket()
        super().close()

    def end_without_bracket(self) -> None:
        """Stop if required parameters are missing: a bracket is, too, and they may be elsewhere."""
        if self._required if self._lacking is None else self._lacking:
            self.stop("missing_parameter")

    @property
    def _required(self) -> set[str]:
        return set(self._calls.required)

    @override
    def _emit(self, piece: str) -> None:
        super()._emit(piece)
        if self._in_key:
            self._text = [piece]
            self._write = self._note

    @override
    def _begin_string(self, quote: str, position: int) -> int:
        if not self._in_key and self._closers and "string" not in self._find_schema().kinds:
            self._emit("")
            self._text, self._text_length = [], 0
            self._write = self._hold
            self._holds = True
        return super()._begin_string(quote, position)

    @override
    def stop(self, kind: Malformation = "invalid_json") -> bool:
        if self._malformed is not None and self._write != self._write_through:
            if self._holds:
                self._write_held("".join(self._text))
            self._write = self._write_through
        return super().stop(kind)

    def write_to(self, write: WriteJson) -> None:
        """Have `write` take the pieces from now on."""
        if self._write == self._write_through:
            self._write = write
        self._write_through = write

    def _note(self, piece: str) -> None:
        self._text.append(piece)
        self._write_through(piece)

    def _hold(self, piece: str) -> None:
        self._text.append(piece)
        self._text_length += len(piece)
        if self._text_length > MAX_HELD_STRING:
            self._write_held("".join(self._text))

    def _write_held(self, text: str) -> None:
        self._write = self._write_through
        self._holds = False
        self._write(text)

    @override
    def _end_value(self) -> None:
        if self._in_key:
            self._write = self._write_through
            self._note_key(str(json.loads("".join(self._text))))
        elif self._holds:
            self._write_held(retype("".join(self._text), self._find_schema()))
        super()._end_value()
