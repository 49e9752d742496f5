"""Arguments in Gemma's syntax: bare keys, bare scalars, and marks around strings."""

from __future__ import annotations

import re

from typing_extensions import override

from ...base.limits import MAX_WORD
from .incremental_grammar import Status, skip_space
from .json_text import escape_json, word_to_json
from .tool_calls import ToolCallEmitter
from .type_conversion import text_to_json
from .typed_json import TypedJson

_KEY = re.compile(r"[^:,{}\[\]<\"'\n]+")
_VALUE = re.compile(r"[^,{}\[\]<]+")
# The same between parentheses, where the models write keyword arguments as Python does.
_KEYWORD = re.compile(r"[^:=,(){}\[\]<\"'\n]+")
_KEYWORD_VALUE = re.compile(r"[^=,(){}\[\]<]+")
# A key in a bare value: the comma before it was omitted.
_NEXT_KEY = re.compile(r"[ \t\r\n][^\W\d]\w*[ \t]?:")
_KEY_BEHIND = re.compile(r"[^\W\d]\w{0,63}[ \t]?:")
_PARTIAL_KEY = re.compile(r"[^\W\d]\w{0,63}[ \t]?\Z")
_MAX_SPACE = 64
_SPACE = rf"[ \t\r\n]{{0,{_MAX_SPACE}}}+"
# Text after the mark that ends a string, and the beginning of such text.
_BEHIND_END = re.compile(rf"{_SPACE}(?:[,}}\])]|{_KEY_BEHIND.pattern})")
_PARTIAL_END = re.compile(rf"{_SPACE}(?:{_PARTIAL_KEY.pattern}|\Z)")
# A comma in an object: if a mark comes next, the words in front of it are no key.
_COMMA = re.compile(rf"{_SPACE},{_SPACE}([\w ]{{0,64}}+)")


class MarkedObject(TypedJson):
    """Writes an object of arguments whose bare values are typed by the declared schema.

    A bare key ends at its colon, a bare value at a comma or bracket; both may contain spaces. The
    comma before a bare key may be missing. Parentheses may stand for the outer braces, with `=` for
    the colons between them. A mark is text of a string if what follows it cannot
    follow a string's end; such marks come in pairs, or the call stays open.

    calls: the call, with its declared schema. quotes: the marks around strings.

    Holds back bare text of at most `MAX_WORD` characters, and what `TypedJson` holds back.
    """

    def __init__(self, calls: ToolCallEmitter, quotes: tuple[str, ...]) -> None:
        super().__init__(calls, calls.arguments, quotes)
        self._has_half_pair = False  # of the marks in the string
        self._has_keywords = False  # parentheses stand for the outer braces

    @property
    @override
    def string_end(self) -> tuple[str, str]:
        mark, behind = super().string_end
        return mark, behind.replace("}", "})") if self._has_keywords else behind

    @override
    def take_unexpected(self, char: str) -> None:
        if self._state == self._after_mark:
            self._take_mark()
            self._take_raw(char)
        else:
            super().take_unexpected(char)

    @override
    def close(self) -> None:
        if self._state == self._after_mark:
            self._end_marked()
        super().close()

    @override
    def _end_raw(self) -> None:
        if self._in_key:
            self._end_string()
        else:
            self._state = self._after_mark

    def _after_mark(self, text: str, position: int) -> int:
        """Decide whether the mark in front of `position` ends the string."""
        mark = self._quote
        behind = position + text.startswith(mark, position) * len(mark)  # it may be doubled
        is_end = self._is_end(text, behind)
        start = min(skip_space(text, position), position + _MAX_SPACE)
        if is_end is None or (behind == position and self._may_be_quote(text, start)):
            return position
        in_array = self._closers[-1] == "]" and text.startswith(mark, start)
        if is_end or in_array:
            self._end_marked()
            return behind if is_end else position
        if not self._last_run:
            self._state = self._raw_string  # the first mark was doubled
        elif behind > position:
            self._take_mark()
        else:
            self.status = Status.UNEXPECTED  # perhaps a marker of the format
        return position

    def _is_end(self, text: str, position: int) -> bool | None:
        """Whether `position` is after a string's end; None needs more text."""
        if not self._final and _PARTIAL_END.match(text, position) is not None:
            return None
        comma = _COMMA.match(text, position) if self._closers[-1] == "}" else None
        if comma is not None:
            if not self._final and self._quote.startswith(text[comma.end() :]):
                return None
            return not (comma[1].strip() and text.startswith(self._quote, comma.end()))
        return _BEHIND_END.match(text, position) is not None or not text[position:].strip()

    def _take_mark(self) -> None:
        """Take a mark as text of the string."""
        self._take_raw(self._quote)
        self._has_half_pair = not self._has_half_pair
        self._state = self._raw_string

    def _end_marked(self) -> None:
        """End a string between marks; the end of one with half a pair is a guess."""
        if self._has_half_pair and self.stop():
            self._write(self._quote)
        else:
            self._end_string()
        self._has_half_pair = False

    @override
    def _value(self, text: str, position: int) -> int:
        if not self._closers:
            self._has_keywords = text.startswith("(", position)
            if self._has_keywords:
                return super()._value("{", 0) + position
        return super()._value(text, position)

    @override
    def _word(self, text: str, position: int) -> int:
        key, value = (_KEYWORD, _KEYWORD_VALUE) if self._has_keywords else (_KEY, _VALUE)
        match = (key if self._in_key else value).match(text, position)
        if match is None or len(match.group()) > MAX_WORD:
            return super()._word(text, position)
        end = match.end()
        if end == len(text) and not self._final:
            return position
        if not self._in_key:
            return self._bare_value(text, position, end)
        if text[end : end + 1] not in ((":", "=") if self._has_keywords else (":",)):
            return super()._word(text, position)
        self._emit(f'"{escape_json(match.group().strip())}"')
        self._end_value()
        return end

    def _bare_value(self, text: str, position: int, end: int) -> int:
        if text[position] in ":=" and self.stop():
            return position
        if self._has_keywords and text[end : end + 1] in ("=", "(") and self.stop():
            return position  # an expression, or the comma in front of a key is missing
        if (next_key := _NEXT_KEY.search(text, position, end)) is not None:
            end = next_key.start()
        if ":" in text[position:end] and not self._takes_string() and self.stop():
            return position  # the comma in front of a key is missing
        self._emit(self._read_value(text[position:end].strip()))
        self._end_value()
        return end

    def _takes_string(self) -> bool:
        return "string" in self._find_schema().kinds

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
                if self._has_swallowed(","):
                    return position
                self._comma = ","
                self._state = self._key
                return position
        return super()._after(text, position)
