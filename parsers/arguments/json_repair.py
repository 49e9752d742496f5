"""Values: JSON, Python literals and what lies between them, to JSON text."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable
from json.encoder import encode_basestring  # what json.dumps uses for ensure_ascii=False

# The longest number or keyword that waits for its end; a longer word becomes a string.
MAX_WORD = 256

_SPACE = re.compile(r"[ \t\r\n]*")
# What a string may hold as it is; between double quotes also the escapes that JSON has, \\u left out.
_RUN = {
    '"': re.compile(r'(?:[^\\"\x00-\x1f]++|\\["\\/bfnrt])++'),
    "'": re.compile(r"[^\\'\x00-\x1f]+"),
}
_WORD = re.compile(r"[\w.+\-$]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_KEYWORDS = {
    "True": "true",
    "False": "false",
    "None": "null",
    "true": "true",
    "false": "false",
    "null": "null",
}
_BRACKETS = {"{": ("{", "}"), "[": ("[", "]"), "(": ("[", "]")}
# White space behind a comma waits with it; more than this much is left out.
_MAX_SPACE = 64
_STRING_PREFIXES = frozenset({"b", "r", "u", "f", "br", "rb"})
# A complete escape sequence of JSON or Python, and how much of one may wait for its end.
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[^xuU])", re.DOTALL)
_PARTIAL_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?")
_PYTHON_ESCAPES = {"'": "'", "a": "\\u0007", "v": "\\u000b", "0": "\\u0000", "\n": ""}
_LAST_CODE_POINT = 0x10FFFF


class Status(enum.Enum):
    """Where a grammar stands.

    MORE: its value goes on; what it did not take must be given again with what follows.
    DONE: its value is complete.
    UNEXPECTED: the next character cannot be part of it; a marker may begin there.
    NOT_A_CALL: what it has read is no call at all.
    """

    MORE = enum.auto()
    DONE = enum.auto()
    UNEXPECTED = enum.auto()
    NOT_A_CALL = enum.auto()


Out = Callable[[str], None]


def quoted(text: str) -> str:
    """Return `text` as the inside of a JSON string."""
    return encode_basestring(text)[1:-1]


def scalar(word: str) -> str:
    """Return the JSON of a number or keyword of JSON or Python; of another word, a string."""
    if word in _KEYWORDS:
        return _KEYWORDS[word]
    if _NUMBER.fullmatch(word):
        return word
    for number in (lambda: int(word, 0), lambda: float(word)):
        try:
            value = number()
        except ValueError:
            continue
        # JSON has neither infinity nor NaN.
        return repr(value) if math.isfinite(value) else f'"{word}"'
    return f'"{quoted(word)}"'


class IncrementalGrammar:
    """What every grammar is: states that read text, one after the other.

    Each state is a method that reads on from a position and returns where it got
    to; the same position in the same state means that it waits for more.
    """

    _state: Callable[[str, int], int]
    _final = False
    status = Status.MORE

    def read(self, text: str, start: int = 0, *, final: bool = False) -> int:
        """Read `text` from `start`; return the position behind what was taken. Sets `status`.

        final: nothing follows, so what waits for its end has ended.
        """
        self.status = Status.MORE
        self._final = final
        position, end = start, len(text)
        while position < end:
            state = self._state
            before, position = position, state(text, position)
            if self.status is not Status.MORE or (position == before and self._state == state):
                break
        return position


def partial_length(text: str, mark: str, start: int = 0) -> int:
    """Return the length of the longest end of `text[start:]` that `mark` begins with, `mark` itself left out."""
    at = text.find(mark[0], max(start, len(text) - len(mark) + 1))
    while at >= 0 and not mark.startswith(text[at:]):
        at = text.find(mark[0], at + 1)
    return len(text) - at if at >= 0 else 0


class JsonRepairer(IncrementalGrammar):
    """Copies one value to JSON text: valid JSON unchanged, and more than JSON repaired.

    Beyond JSON it takes Python's literals (single quotes, True, None, tuples),
    keys and strings without quotes, trailing and missing commas, control
    characters in strings. It never evaluates anything.

    out: takes pieces of JSON text.
    quotes: further marks that open and close a string without escapes.

    What waits for more text: an escape sequence, a word of at most `MAX_WORD`
    characters, part of a mark; and one comma with the white space behind it.
    """

    def __init__(self, out: Out, quotes: tuple[str, ...] = ()) -> None:
        self._out = out
        self._quotes = quotes
        self._quote = ""
        self._closers: list[str] = []
        self._comma = ""  # with the white space behind it: goes out only if a value follows
        self._in_key = False
        self._state = self._value

    @property
    def in_string(self) -> bool:
        """Whether the next character is text of a string, whatever it looks like."""
        return self._state in (self._string, self._raw)

    @property
    def started(self) -> bool:
        """Whether anything but white space was read."""
        return bool(self._closers) or self._state != self._value

    def force(self, char: str) -> None:
        """Take the character that `read` got stuck at, if it is no marker: as text of a value, else not at all."""
        if self._state in (self._value, self._key):
            self._in_key = self._state == self._key
            self._emit('"' + quoted(char))
            self._state = self._bare

    def read_through(self, text: str) -> str:
        """Read `text`, in which there are no markers; return the part that waits for more."""
        position = self.read(text)
        while self.status is Status.UNEXPECTED:
            self.force(text[position])
            position = self.read(text, position + 1)
        return text[position:] if self.status is Status.MORE else ""

    def close(self) -> None:
        """End the strings and brackets that are open."""
        if self._state in (self._string, self._raw, self._bare):
            self._end_string()
        if self._state == self._colon:
            self._out(":null")
        elif self._state == self._value and self._closers and self._closers[-1] == "}":
            self._out("null")
        for closer in reversed(self._closers):
            self._out(closer)
        self._closers.clear()
        self.status = Status.DONE

    # The states; see `IncrementalGrammar`.

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
        self._in_key = self._state in (self._string, self._raw, self._bare)
        return position

    def _atom(self, text: str, position: int) -> int:
        """Read a string or a word, or the bracket that stands in its place."""
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
        if char in "]})" and self._closers:
            return self._end_bracket(position)
        return self._word(text, position)

    def _word(self, text: str, position: int) -> int:
        end = _end(_WORD, text, position)
        word = text[position:end]
        if not word:
            self.status = Status.UNEXPECTED
            return position
        if end - position > MAX_WORD:
            self._emit('"' + quoted(word))
            self._state = self._bare
            return end
        if end == len(text) and not self._final:
            return position
        if end < len(text) and text[end] in "\"'" and word in _STRING_PREFIXES:
            return self._begin_string(text[end], end)
        self._emit(f'"{quoted(word)}"' if self._in_key else scalar(word))
        self._end_value()
        return end

    def _bare(self, text: str, position: int) -> int:
        """Read the rest of a word that does not wait for its end."""
        end = _end(_WORD, text, position)
        if end > position:
            self._out(quoted(text[position:end]))
        if end < len(text) or self._final:
            self._end_string()
        return end

    def _string(self, text: str, position: int) -> int:
        match = _RUN[self._quote].match(text, position)
        if match is not None:
            run = match.group()
            self._out(run.replace('"', '\\"') if self._quote == "'" else run)
            position = match.end()
            if position == len(text):
                return position
        char = text[position]
        if char == self._quote:
            self._end_string()
        elif char == "\\":
            return self._escape(text, position)
        else:
            self._out(quoted(char))
        return position + 1

    def _escape(self, text: str, position: int) -> int:
        match = _ESCAPE.match(text, position)
        if match is not None:
            self._out(_json_escape(match.group()))
            return match.end()
        partial = _PARTIAL_ESCAPE.match(text, position)
        if partial is not None and partial.end() == len(text) and not self._final:
            return position
        self._out("\\\\")
        return position + 1

    def _raw(self, text: str, position: int) -> int:
        """Read a string without escapes, up to its mark."""
        end = text.find(self._quote, position)
        if end >= 0:
            self._out(quoted(text[position:end]))
            self._end_string()
            return end + len(self._quote)
        end = len(text) if self._final else len(text) - partial_length(text, self._quote, position)
        self._out(quoted(text[position:end]))
        return end

    def _colon(self, text: str, position: int) -> int:
        position = self._white_space(text, position)
        if position == len(text):
            return position
        if text[position] in ":=":
            self._out(":")
            self._state = self._value
            return position + 1
        if text[position] in ",}":
            self._out(":null")
            self._state = self._after
        else:
            self.status = Status.UNEXPECTED
        return position

    def _after(self, text: str, position: int) -> int:
        """Read what follows a value inside brackets."""
        position = self._white_space(text, position)
        if position == len(text):
            return position
        char = text[position]
        if char in "]})":
            return self._end_bracket(position)
        if char in ",\"'{[" or (self._quotes and text.startswith(self._quotes, position)):
            # A comma that the model has left out is put in.
            self._comma = ","
            self._state = self._key if self._closers[-1] == "}" else self._value
            return position + (char == ",")
        if not self._may_be_quote(text, position):
            self.status = Status.UNEXPECTED
        return position

    def _may_be_quote(self, text: str, position: int) -> bool:
        """Whether the text ends in the beginning of a mark."""
        return not self._final and any(quote.startswith(text[position:]) for quote in self._quotes)

    def _white_space(self, text: str, position: int) -> int:
        end = _end(_SPACE, text, position)
        if end > position and self._closers:
            if not self._comma:
                self._out(text[position:end])
            elif len(self._comma) < _MAX_SPACE:
                self._comma = (self._comma + text[position:end])[:_MAX_SPACE]
        return end

    def _emit(self, piece: str) -> None:
        self._out(self._comma + piece)
        self._comma = ""

    def _begin_string(self, quote: str, position: int) -> int:
        self._emit('"')
        self._quote = quote
        self._state = self._string if quote in _RUN else self._raw
        return position + len(quote)

    def _end_string(self) -> None:
        self._out('"')
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
        if self._state == self._value and self._closers[-1] == "}":
            self._out("null")
        self._out(self._comma[1:] + self._closers.pop())
        self._comma = ""
        self._in_key = False
        self._end_value()
        return position + 1


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return where the characters of `pattern` end that begin at `position`."""
    match = pattern.match(text, position)
    return position if match is None else match.end()


def _json_escape(escape: str) -> str:
    """Return the JSON of a complete escape sequence of JSON or Python."""
    kind = escape[1]
    if kind in "xU":
        digits = escape[2:]
        code_point = int(digits, 16)
        return quoted(chr(code_point)) if code_point <= _LAST_CODE_POINT else "\\" + escape
    if kind in 'u"\\/bfnrt':
        return escape
    return _PYTHON_ESCAPES.get(kind, "\\\\" + quoted(kind))
