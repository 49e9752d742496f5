"""Rewrites values in JSON, Python syntax or a mixture of both as JSON text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from typing_extensions import override

from ...base.limits import MAX_WORD
from ..events import Malformation
from .incremental_grammar import IncrementalGrammar, Status, partial_length, skip_space
from .json_text import WriteJson, escape_json, may_be_number, word_to_json


class StringRun(NamedTuple):
    """Text of a string that needs no closer look.

    matches: matches it. to_json: converts it to part of a JSON string.
    """

    matches: re.Pattern[str]
    to_json: Callable[[str], str]


def escape_quotes(text: str) -> str:
    """Escape the double quotes of a text that needs no other escapes."""
    return text.replace('"', '\\"')


# By quote. Between double quotes, including JSON's escapes except \\u: `_escape` holds back an
# incomplete one.
_RUN = {
    '"': StringRun(re.compile(r'(?:[^\\"\x00-\x1f]++|\\["\\/bfnrt])++'), str),
    "'": StringRun(re.compile(r"[^\\'\x00-\x1f]+"), escape_quotes),
}
_WORD = re.compile(r"[\w.+\-$]*")
# Text of a malformed value in which no marker begins.
_PLAIN = re.compile(r"[\w \"',.]+")
_QUOTES = frozenset("\"'")
# The beginning of a string whose first quote was doubled.
_BEHIND_DOUBLED = re.compile(r"[\w./~$+\-]")
_BRACKETS = {"{": ("{", "}"), "[": ("[", "]"), "(": ("[", "]")}
# Limit for a held-back comma with the white space after it; more white space is dropped.
_MAX_COMMA = 64
_STRING_PREFIXES = frozenset({"b", "r", "u", "f", "br", "rb"})
# An escape sequence of JSON or Python, complete and incomplete.
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[^xuU])", re.DOTALL)
_PARTIAL_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?")
_PYTHON_ESCAPES = {"'": "'", "a": "\\u0007", "v": "\\u000b", "0": "\\u0000", "\n": ""}
_LAST_CODE_POINT = 0x10FFFF


class JsonRepairer(IncrementalGrammar):
    """Writes one value as JSON text: copies valid JSON, repairs what is close to it.

    Beyond JSON it accepts Python's literals (single quotes, True, None, tuples), keys and strings
    without quotes, trailing and missing commas, and control characters in strings. Nothing is
    evaluated.

    A repair adds or drops delimiters alone. Where more would be needed, a null or the loss of a
    character, it stops: `malformed` is called, and the rest is written as it is.

    write: takes the pieces of JSON text.
    quotes: additional marks that open and close a string, which then has no escapes.
    malformed: called once, where the repair stops. Without it, the value is repaired by guesses.

    Holds back an incomplete escape sequence (at most 9 characters), a word of at most `MAX_WORD`
    characters, a number of `MAX_NUMBER` or the beginning of a mark, and a comma with white space,
    at most `_MAX_COMMA` characters together.
    """

    _runs: Mapping[str, StringRun] = _RUN

    def __init__(
        self,
        write: WriteJson,
        quotes: tuple[str, ...] = (),
        malformed: Callable[[Malformation], None] | None = None,
    ) -> None:
        self._write = write
        self._quotes = quotes
        self._malformed = malformed
        self._quote = ""
        self._closers: list[str] = []
        self._comma = ""  # with the white space after it: written only if a value follows
        self._in_key = False
        self._last_run = ""  # the latest piece of the last string
        self._state = self._value

    @property
    @override
    def in_string(self) -> bool:
        return self._state in (self._string, self._raw_string)

    @property
    @override
    def string_end(self) -> tuple[str, str]:
        if self._in_key:
            return self._quote, ":="
        closer = self._closers[-1] if self._closers else ""
        return self._quote, "," + closer + (")" if closer == "]" else "")

    @property
    @override
    def in_argument(self) -> bool:
        return self.started and self.status is not Status.DONE

    @property
    def started(self) -> bool:
        """Whether anything except white space has been read."""
        return bool(self._closers) or self._state != self._value

    @override
    def take_unexpected(self, char: str) -> None:
        if self.stop():
            self._write(char)
            return
        # Where a value or key is expected, the character begins a word. Elsewhere it is dropped.
        if self._state in (self._value, self._key):
            self._in_key = self._state == self._key
            self._emit('"' + escape_json(char))
            self._state = self._bare_word

    def read_far(self, text: str) -> int:
        """Read `text`, which has no markers; return the end of the text taken."""
        position = self.read(text)
        while self.status is Status.UNEXPECTED:
            self.take_unexpected(text[position])
            position = self.read(text, position + 1)
        return position

    @override
    def close(self) -> None:
        if self._state == self._after_empty:
            self._end_string()
        in_string = self._state in (self._string, self._raw_string)
        lacks_value = self._state == self._colon or self._expects_member
        self.status = Status.DONE
        if self._stays_open(in_string or lacks_value):
            self._closers.clear()
            return
        if in_string or self._state == self._bare_word:
            self._end_string()
        if self._state == self._colon:
            self._write(":null")
        elif self._expects_member:
            self._write("null")
        for closer in reversed(self._closers):
            self._write(closer)
        self._closers.clear()

    def _stays_open(self, lacks_more: bool) -> bool:
        """Whether delimiters alone do not close the value. lacks_more: a quote or a value."""
        if self._state == self._as_written or (lacks_more and self.stop()):
            return True
        return bool(self._closers) and self._has_swallowed("}])")

    @property
    def _expects_member(self) -> bool:
        """Whether the value of an object's member comes next."""
        return self._state == self._value and bool(self._closers) and self._closers[-1] == "}"

    def stop(self, kind: Malformation = "invalid_json") -> bool:
        """Stop the repair, unless guesses are wanted; return whether it has stopped."""
        if self._malformed is None or self._state == self._as_written:
            return self._malformed is not None
        self._in_key = False
        self._emit("")
        self._state = self._as_written
        self._malformed(kind)
        return True

    def ends_with(self, marks: str) -> bool:
        """Whether the last string ends with one of `marks`."""
        return bool(self._last_run) and self._last_run[-1] in marks

    def _has_swallowed(self, marks: str) -> bool:
        """Stop before a missing mark if the string before it ends with one, perhaps that one."""
        return self.ends_with(marks) and self.stop()

    # The states.

    def _as_written(self, text: str, position: int) -> int:
        """Write the rest of a malformed value; stop where a marker may begin."""
        end = _match_end(_PLAIN, text, position)
        if end > position:
            self._write(text[position:end])
        else:
            self.status = Status.UNEXPECTED
        return end

    def _value(self, text: str, position: int) -> int:
        position = self._white_space(text, position)
        if position < len(text) and (brackets := _BRACKETS.get(text[position])) is not None:
            self._emit(brackets[0])
            self._closers.append(brackets[1])
            self._state = self._key if brackets[1] == "}" else self._value
            return position + 1
        return self._atom(text, position)

    def _key(self, text: str, position: int) -> int:
        position = self._white_space(text, position)
        self._in_key = True
        position = self._atom(text, position)
        self._in_key = self._state in (self._string, self._raw_string, self._bare_word)
        return position

    def _atom(self, text: str, position: int) -> int:
        """Read a string or a word, or a closing bracket instead."""
        if position == len(text):
            return position
        char = text[position]
        if char in "\"'":
            return self._begin_string(char, position)
        for quote in self._quotes:
            if text.startswith(quote, position):
                return self._begin_string(quote, position)
        if self._may_be_quote(text, position):
            return position
        if char in "]})," and self._closers:
            return self._skip_comma(position) if char == "," else self._end_bracket(position)
        return self._word(text, position)

    def _skip_comma(self, position: int) -> int:
        """Read a comma where a key or value is expected."""
        if self._expects_member:
            if self.stop():
                return position
            self._emit("null")  # a member without a value; its comma follows
            self._end_value()
            return position
        return position + 1

    def _word(self, text: str, position: int) -> int:
        end = _match_end(_WORD, text, position)
        word = text[position:end]
        if not word:
            self.status = Status.UNEXPECTED
            return position
        if len(word) > MAX_WORD and not may_be_number(word):
            self._emit('"' + escape_json(word))
            self._state = self._bare_word
            return end
        if end == len(text) and not self._final:
            return position
        if text[end : end + 1] in _QUOTES and word in _STRING_PREFIXES:
            return self._begin_string(text[end], end)
        self._emit(f'"{escape_json(word)}"' if self._in_key else word_to_json(word))
        self._end_value()
        return end

    def _bare_word(self, text: str, position: int) -> int:
        """Read the rest of a word that was too long to hold back."""
        end = _match_end(_WORD, text, position)
        if end > position:
            self._write(escape_json(text[position:end]))
        if end < len(text) or self._final:
            self._end_string()
        return end

    @override
    def take_run(self, text: str) -> bool:
        if self._state != self._string:
            is_plain = self._state == self._raw_string and self._quote[0] not in text
            if is_plain:
                self._last_run = text
                self._write(escape_json(text))
            return is_plain
        run = self._runs[self._quote[0]]
        if run.matches.fullmatch(text) is None:
            return False
        self._write(run.to_json(text))
        self._last_run = text
        return True

    def _string(self, text: str, position: int) -> int:
        quote = self._quote
        run = self._runs[quote[0]]
        match = run.matches.match(text, position)
        if match is not None:
            self._last_run = match.group()
            self._write(run.to_json(self._last_run))
            position = match.end()
            if position == len(text):
                return position
        if text.startswith(quote, position):
            self._close_string()
            return position + len(quote)
        if text[position] == "\\":
            return self._escape(text, position)
        if text[position] == quote[0] and quote.startswith(text[position:]) and not self._final:
            return position  # the end of a longer mark may follow
        self._write(escape_json(text[position]))
        return position + 1

    def _close_string(self) -> None:
        """End a string; an empty one only if none begins after its quote."""
        if self._in_key or self._last_run:
            self._end_string()
        else:
            self._state = self._after_empty

    def _after_empty(self, text: str, position: int) -> int:
        """End an empty string, or go on with one whose first quote was doubled."""
        if _BEHIND_DOUBLED.match(text, position) is not None:
            self._state = self._string
        else:
            self._end_string()
        return position

    def _escape(self, text: str, position: int) -> int:
        match = _ESCAPE.match(text, position)
        self._last_run = text[position : position + 2]
        if match is not None:
            self._write(_json_escape(match.group()))
            return match.end()
        partial = _PARTIAL_ESCAPE.match(text, position)
        if partial is not None and partial.end() == len(text) and not self._final:
            return position
        self._write("\\\\")
        return position + 1

    def _raw_string(self, text: str, position: int) -> int:
        """Read a string between two of the additional `quotes`."""
        end = text.find(self._quote, position)
        if end >= 0:
            self._take_raw(text[position:end])
            self._end_raw()
            return end + len(self._quote)
        end = len(text) if self._final else len(text) - partial_length(text, self._quote, position)
        self._take_raw(text[position:end])
        return end

    def _take_raw(self, text: str) -> None:
        self._last_run = text or self._last_run
        self._write(escape_json(text))

    def _end_raw(self) -> None:
        """Take a mark in a string between two of the additional `quotes`."""
        self._end_string()

    def _colon(self, text: str, position: int) -> int:
        position = self._white_space(text, position)
        if position == len(text):
            return position
        if text[position] in ":=":
            self._write(":")
            self._state = self._value
            return position + 1
        if text[position] in ",}":
            if not self.stop():
                self._write(":null")
                self._state = self._after
        else:
            self.status = Status.UNEXPECTED
        return position

    def _after(self, text: str, position: int) -> int:
        """Read the text after a value inside brackets."""
        position = self._white_space(text, position)
        if position == len(text):
            return position
        char = text[position]
        if char in "]})":
            return self._end_bracket(position)
        if char != "," and (self._has_swallowed(",") or self._awaits_key(text, position)):
            return position
        if char in ",\"'{[" or (self._quotes and text.startswith(self._quotes, position)):
            # Insert a comma that the model omitted.
            self._comma = ","
            self._state = self._key if self._closers[-1] == "}" else self._value
            return position + (char == ",")
        if not self._may_be_quote(text, position):
            self.status = Status.UNEXPECTED
        return position

    def _awaits_key(self, text: str, position: int) -> bool:
        """Stop at a quote that opens no key, before which a comma is missing; True also to wait."""
        if text[position] not in _QUOTES or self._closers[-1] != "}":
            return False
        first = text[position + 1 : position + 2]
        return not self._final if not first else not first.isidentifier() and self.stop()

    def _may_be_quote(self, text: str, position: int) -> bool:
        """Whether the text at `position` may begin one of `quotes`."""
        return not self._final and any(quote.startswith(text[position:]) for quote in self._quotes)

    def _white_space(self, text: str, position: int) -> int:
        end = skip_space(text, position)
        if end > position and self._closers:
            if not self._comma:
                self._write(text[position:end])
            elif len(self._comma) < _MAX_COMMA:
                self._comma = (self._comma + text[position:end])[:_MAX_COMMA]
        return end

    def _emit(self, piece: str) -> None:
        self._write(self._comma + piece)
        self._comma = self._last_run = ""

    def _begin_string(self, quote: str, position: int) -> int:
        self._emit('"')
        self._quote = quote
        self._state = self._string if quote in _RUN else self._raw_string
        return position + len(quote)

    def _end_string(self) -> None:
        self._write('"')
        self._end_value()

    def _end_value(self) -> None:
        if self._in_key:
            self._in_key = False
            self._state = self._colon
            return
        self._state = self._after
        if not self._closers:
            self.status = Status.DONE

    def _end_bracket(self, position: int) -> int:
        if self._expects_member:
            if self.stop():
                return position
            self._write("null")
        self._write(self._comma[1:] + self._closers.pop())
        self._comma = ""
        self._in_key = False
        self._end_value()
        return position + 1


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return the end of the match of `pattern` at `position`; `position` without a match."""
    match = pattern.match(text, position)
    return position if match is None else match.end()


def _json_escape(escape: str) -> str:
    """Return the JSON of a complete escape sequence of JSON or Python."""
    kind = escape[1]
    if kind in "xU":
        digits = escape[2:]
        code_point = int(digits, 16)
        return escape_json(chr(code_point)) if code_point <= _LAST_CODE_POINT else "\\" + escape
    if kind in 'u"\\/bfnrt':
        return escape
    return _PYTHON_ESCAPES.get(kind, "\\\\" + escape_json(kind))
