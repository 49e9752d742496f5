"""Arguments in Gemma's syntax: bare keys, bare scalars, and marks around strings."""

from __future__ import annotations

import re

from typing_extensions import override

from ...base.limits import MAX_WORD
from .json_text import escape_json, word_to_json
from .text_value import text_to_json
from .tool_calls import ToolCallEmitter
from .typed_json import TypedJson

_KEY = re.compile(r"[^:,{}\[\]<\"'\n]+")
_VALUE = re.compile(r"[^,{}\[\]<]+")
# A key in a bare value: the comma before it was omitted.
_NEXT_KEY = re.compile(r"[ \t\r\n][^\W\d]\w*[ \t]?:")
_KEY_BEHIND = re.compile(r"[^\W\d]\w{0,63}[ \t]?:")
_PARTIAL_KEY = re.compile(r"[^\W\d]\w{0,63}[ \t]?\Z")


class MarkedObject(TypedJson):
    """Writes an object of arguments whose bare values are typed by the declared schema.

    A bare key ends at its colon, a bare value at a comma or bracket; both may contain spaces. The
    comma before a bare key may be missing.

    calls: the call, with its declared schema. quotes: the marks around strings.

    Holds back bare text of at most `MAX_WORD` characters, and what `TypedJson` holds back.
    """

    def __init__(self, calls: ToolCallEmitter, quotes: tuple[str, ...]) -> None:
        super().__init__(calls, calls.arguments, quotes)

    @override
    def _word(self, text: str, position: int) -> int:
        match = (_KEY if self._in_key else _VALUE).match(text, position)
        if match is None or len(match.group()) > MAX_WORD:
            return super()._word(text, position)
        end = match.end()
        if end == len(text) and not self._final:
            return position
        if not self._in_key:
            if text[position] in ":=" and self.stop():
                return position
            if (next_key := _NEXT_KEY.search(text, position, end)) is not None:
                end = next_key.start()
            self._emit(self._read_value(text[position:end].strip()))
            self._end_value()
            return end
        if text[end : end + 1] != ":":
            return super()._word(text, position)
        self._emit(f'"{escape_json(match.group().strip())}"')
        self._end_value()
        return end

    def _read_value(self, text: str) -> str:
        schema = self._find_schema()
        is_null = text in ("null", "None")
        return text_to_json(text, schema) if schema.declared and not is_null else word_to_json(text)

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
