"""Values of Python calls: literals as in `ast.literal_eval`; other source as a string."""

from __future__ import annotations

from collections.abc import Callable, Collection

from typing_extensions import override

from ...base.limits import MAX_UNDECIDED_BRACKET, MAX_WORD
from ..events import Malformation
from ..schema import ValueSchema
from .incremental_grammar import Status
from .json_repair import JsonRepairer
from .json_text import WriteJson, escape_json, may_be_number, word_to_json
from .python_escapes import read_escape
from .python_words import (
    MAX_LOOK,
    MAX_SPACES,
    OPENERS,
    PREFIXES,
    QUOTES,
    RAW_RUNS,
    RUNS,
    STRING_START,
    WORD,
    Followers,
    match_space,
)
from .type_conversion import retype
from .value_between_tags import UNDECLARED

# Marks that follow an empty string, and those that follow a value.
_BEHIND_EMPTY = " \t\r\n,)]}:\"'"
_ENDS = ("", ",", ")", "]", "}", ":")
# The closing mark while the content of an open bracket is undecided.
_UNDECIDED = {"{": "dict or set", "(": "list or value"}
# No marker begins with one of these.
_NO_MARKERS = "\"'\\"


class PythonValue(JsonRepairer):
    """Writes the value of one argument of a Python call as JSON text. Nothing is evaluated.

    Literals are read as `ast.literal_eval` does. A tuple or set becomes a list; each byte of a
    bytes literal becomes the character with its number. Source that is not a literal (a name, an
    f-string, an expression) becomes a string with that source.

    A quote ends its string only if the text after it may follow a string; other quotes are text,
    as in `command='sed -n '1,9p' f'`. Triple-quoted strings end at the first three quotes.

    write: takes the pieces of JSON text.
    keywords: the names of the declared parameters; if empty, any name is a keyword.
    has_inner_quotes: whether a quote of a string was taken for text.
    positional: more positional arguments may follow.
    malformed: called once, where more than delimiters are missing; the rest is written as it is.
        Without it, such source is a string. schema: the argument's.

    Holds back an incomplete escape sequence, a word of at most `MAX_WORD` characters or a number of
    `MAX_NUMBER`, and at most `MAX_LOOK` characters after a quote or word. At most
    `MAX_UNDECIDED_BRACKET` characters of JSON wait while "(" and "{" may enclose a value, a list or
    an object; a bracket with more text encloses a list.
    """

    def __init__(
        self,
        write: WriteJson,
        keywords: Collection[str] = (),
        *,
        positional: bool = False,
        malformed: Callable[[Malformation], None] | None = None,
        schema: ValueSchema = UNDECLARED["json"],
    ) -> None:
        super().__init__(write, malformed=malformed)
        self._schema, self._write_through = schema, write
        self._followers = Followers(keywords, positional)
        self._raw = self._bytes = False
        self._has_inner_quotes = self.has_inner_quotes = False
        self._space = ""  # after a quote or word that may end the value
        self._last_word = ""
        self._depth = 0  # of brackets in source that is not a literal
        self._undecided: list[int] = []  # positions in `_held` of undecided brackets
        self._held: list[str] = []
        self._held_length = 0

    @property
    @override
    def in_string(self) -> bool:
        return self._state in (self._opened, self._string, self._source_string)

    @property
    @override
    def string_end(self) -> tuple[str, str]:
        closer = self._closers[-1] if self._closers else ""
        if closer in _UNDECIDED.values():
            return self._quote, ",:}" if closer == _UNDECIDED["{"] else ",)"
        return super().string_end

    @override
    def take_unexpected(self, char: str) -> None:
        if self._state == self._as_written:
            self._write(char)
        elif self._state in (self._value, self._key):
            self._in_key = self._state == self._key
            self._begin_source(char)
        elif self._state == self._after_word:
            self._begin_source(self._last_word + self._space + char)
        elif self._state == self._source:
            self._write(escape_json(char))
        elif self._state == self._after_quote:
            self._continue_string()
            self._write(escape_json(char))

    @override
    def stop(self, kind: Malformation = "invalid_json") -> bool:
        if self._malformed is not None and self._held:
            self._decide_all()
        return super().stop(kind)

    @override
    def close(self) -> None:
        if self._state == self._as_written or (
            (self.in_string or self._state == self._escape) and self.stop()
        ):
            self._closers.clear()
            self.status = Status.DONE
            return
        if self._state == self._after_word:
            self._end_word()
        elif self._state not in (self._value, self._first, self._key, self._colon, self._after):
            self._end_string()
        if self._undecided:
            self._decide_all()
        super().close()

    # Brackets, and the JSON text that is held back while their content is undecided.

    @override
    def _value(self, text: str, position: int) -> int:
        position = match_space(text, position)
        if position == len(text) or (char := text[position]) not in OPENERS:
            return self._atom(text, position)
        self._emit("")
        if char == "[":
            self._closers.append("]")
            self._write("[")
            return position + 1
        self._closers.append(_UNDECIDED[char])
        self._undecided.append(len(self._held))
        self._held.append("")
        self._held_length += 1
        self._write = self._hold
        self._state = self._first if char == "{" else self._value
        return position + 1

    def _hold(self, piece: str) -> None:
        if piece:
            self._held.append(piece)
            self._held_length += len(piece)
            if self._held_length > MAX_UNDECIDED_BRACKET:
                self._decide_all()

    def _decide(self, opener: str) -> None:
        """Decide the innermost undecided bracket: "{", "[", or "" if it encloses one value."""
        self._held[self._undecided.pop()] = opener
        if opener:
            self._closers[-1] = "}" if opener == "{" else "]"
        if not self._undecided:
            self._write_held()

    def _decide_all(self) -> None:
        """Stop waiting: the undecided brackets enclose lists."""
        closers = self._closers
        self._closers = ["]" if closer in _UNDECIDED.values() else closer for closer in closers]
        for index in self._undecided:
            self._held[index] = "["
        self._undecided.clear()
        self._write_held()

    def _write_held(self) -> None:
        held, self._held, self._held_length = "".join(self._held), [], 0
        self._write = self._write_through
        self._write(held)

    def _first(self, text: str, position: int) -> int:
        """Read up to the first key of an object or element of a set."""
        position = match_space(text, position)
        if position == len(text):
            return position
        if text[position] == "}":
            self._decide("{")
            self._state = self._key
            return self._end_bracket(position)
        if text[position] in OPENERS:
            self._decide("[")
        self._state = self._value
        return position

    @override
    def _key(self, text: str, position: int) -> int:
        self._in_key = True
        return self._atom(text, match_space(text, position))

    @override
    def _after(self, text: str, position: int) -> int:
        position = match_space(text, position)
        if position == len(text):
            return position
        match self._closers[-1]:
            case "dict or set":
                return self._after_first(text, position)
            case "list or value" if text[position] == ")":
                self._decide("")
                self._closers.pop()
                self._end_value()
                return position + 1
            case "list or value":
                self._decide("[")
            case "]" if text[position] == ":":  # the key was a bracket, which JSON does not have
                self._comma = ","
                self._state = self._value
                return position + 1
        return super()._after(text, position)

    def _after_first(self, text: str, position: int) -> int:
        """Read what follows the first key of an object or element of a set."""
        if text[position] != ":":
            self._decide("[")
            return super()._after(text, position)
        if not self._held[-1].endswith('"'):
            self._held[-1] = f'"{self._held[-1]}"'
        self._decide("{")
        self._state = self._colon
        return position

    @override
    def _end_value(self) -> None:
        if self._held and not self._closers:  # a string, where the schema allows none
            self._held = [retype("".join(self._held), self._schema)]
            self._write_held()
        super()._end_value()

    @override
    def _end_bracket(self, position: int) -> int:
        if self._closers[-1] in _UNDECIDED.values():
            self._decide("[")  # it is empty
        return super()._end_bracket(position)

    @override
    def _white_space(self, text: str, position: int) -> int:
        return match_space(text, position)

    @override
    def _atom(self, text: str, position: int) -> int:
        if position == len(text):
            return position
        char = text[position]
        if char in QUOTES:
            return self._begin_literal("", char, position)
        if char in "]})" and self._closers:
            return self._end_bracket(position)
        return self._word(text, position)

    @override
    def _word(self, text: str, position: int) -> int:
        match = WORD.match(text, position)
        if match is None:
            self.status = Status.UNEXPECTED
            return position
        word, end = match.group(), match.end()
        if len(word) > MAX_WORD and not may_be_number(word):
            self._begin_source(word)
            return end
        if end == len(text) and not self._final:
            return position
        if end < len(text) and text[end] in QUOTES and word.lower() in PREFIXES:
            return self._begin_literal(word.lower(), text[end], end)
        self._last_word, self._space = word, ""
        self._state = self._after_word
        if end == len(text):
            self._end_word()
        return end

    def _after_word(self, text: str, position: int) -> int:
        """Decide whether the value ends with the word before `position`."""
        position = self._skip_space(text, position)
        ends = self._may_end(text, position)
        if ends:
            self._end_word()
        elif ends is not None:
            self.status = Status.UNEXPECTED
        return position

    def _end_word(self) -> None:
        word = word_to_json("".join(self._last_word.split()))  # a sign may stand apart
        if word[0] == '"' and not self._closers:
            word = retype(word, self._schema)
        self._space = ""
        self._emit(f'"{word}"' if self._in_key and word[0] != '"' else word)
        self._end_value()

    # Source that is not a literal.

    def _begin_source(self, text: str) -> None:
        is_word = WORD.fullmatch(text) is not None
        may_be_string = bool(self._closers) or "string" in self._schema.kinds
        if not (is_word and may_be_string) and self.stop():
            self._write(text)
            return
        self._emit('"' + escape_json(text))
        self._space = ""
        self._depth = int(text[-1] in OPENERS)
        self._state = self._source
        if text[-1] in QUOTES:
            self._quote = text[-1]
            self._state = self._source_string

    def _source(self, text: str, position: int) -> int:
        """Copy source up to the comma or bracket that ends the value."""
        position = self._skip_space(text, position)
        if position == len(text) and not self._final and len(self._space) <= MAX_SPACES:
            return position
        char = text[position : position + 1]
        if not char or self._ends_source(char):
            self._space = ""
            self._end_string()
            return position
        self._write(escape_json(self._space))
        self._space = ""
        match = WORD.match(text, position)
        if match is not None:
            self._write(match.group())
            return match.end()
        return position if self.stop() else self._source_char(position, char)

    def _source_char(self, position: int, char: str) -> int:
        """Copy a mark of source, unless a marker may begin there."""
        if char in QUOTES:
            self._quote = char
            self._state = self._source_string
        elif char not in "()[]{},":
            self.status = Status.UNEXPECTED  # a marker may begin here
            return position
        self._depth += (char in OPENERS) - (char in ")]}")
        self._write(escape_json(char))
        return position + 1

    def _ends_source(self, char: str) -> bool:
        return not self._depth and (char in ",)]}" or (char == ":" and self._in_key))

    def _source_string(self, text: str, position: int) -> int:
        """Copy a string in source, with its quotes and escape sequences."""
        match = RAW_RUNS[self._quote].matches.match(text, position)
        end = position + 1 + (text[position] == "\\") if match is None else match.end()
        if end > len(text) and not self._final:
            return position
        self._write(escape_json(text[position:end]))
        if text[position] == self._quote:
            self._state = self._source
        return min(end, len(text))

    def _begin_literal(self, prefix: str, quote: str, position: int) -> int:
        """Begin a string, or another one that continues the string before it."""
        self._raw, self._bytes = "r" in prefix, "b" in prefix
        self._runs = RAW_RUNS if self._raw else RUNS
        self._quote = quote
        self._has_inner_quotes = False
        if self._state != self._after_quote:
            if not self._closers and "string" not in self._schema.kinds:
                self._write = self._hold
            self._emit('"')
        self._space = ""
        self._state = self._opened
        return position + 1

    def _opened(self, text: str, position: int) -> int:
        """Decide whether the first quote is the first of three."""
        is_quote = text[position] == self._quote
        self._state = self._opened_twice if is_quote else self._string
        return position + is_quote

    def _opened_twice(self, text: str, position: int) -> int:
        if text[position] == self._quote:
            self._quote *= 3
            self._state = self._string
            return position + 1
        if text[position] not in _BEHIND_EMPTY and self.stop():
            return position  # the quote was doubled
        self._state = self._after_quote
        return position

    @override
    def _close_string(self) -> None:
        self._state = self._after_quote

    @override
    def _escape(self, text: str, position: int) -> int:
        if not self._raw:
            char, end = read_escape(text, position, in_bytes=self._bytes, final=self._final)
            self._write(char)
            return end
        if position + 1 == len(text) and not self._final:
            return position
        char = text[position + 1 : position + 2]
        if char == "\r":
            char = ""  # a line break in any form
        self._write("\\\\" + escape_json(char))
        return position + 1 + len(char)

    def _after_quote(self, text: str, position: int) -> int:
        """Decide whether the quote before `position` ends its string, or is text."""
        position = self._skip_space(text, position)
        if (start := self._next_string(text, position)) is not None:
            return start
        ends = self._may_end(text, position)
        if ends and self._may_lack_comma(text, position):
            return position
        if ends or (ends is False and len(self._quote) > 1):
            self._space = ""
            self._end_string()
        elif ends is False:
            self._keep_quote(text[position])
        return position

    def _next_string(self, text: str, position: int) -> int | None:
        """Begin a string that continues the one before it; `position` may need more text."""
        string = None if self._has_inner_quotes else STRING_START.match(text, position)
        if string is None or len(self._space) > MAX_SPACES:
            return None
        if string[2]:
            return self._begin_literal((string[1] or "").lower(), string[2], string.end() - 1)
        return None if self._final else position  # a quote may follow the prefix

    def _may_lack_comma(self, text: str, position: int) -> bool:
        return text[position : position + 1] not in _ENDS and self._has_swallowed(",")

    def _keep_quote(self, char: str) -> None:
        """Take the quote before `char` for text, unless a marker may begin there."""
        if char.isalnum() or char in _NO_MARKERS:
            self._continue_string()
        else:
            self.status = Status.UNEXPECTED

    def _continue_string(self) -> None:
        """Continue a string: its quote is text."""
        self._has_inner_quotes = self.has_inner_quotes = True
        self._write(escape_json(self._quote + self._space))
        self._space = ""
        self._state = self._string

    def _skip_space(self, text: str, position: int) -> int:
        """Return the position after white space, which is kept in `_space` up to its limit."""
        space = text[position : match_space(text, position)]
        space = space[: MAX_SPACES + 1 - len(self._space)]
        self._space += space
        return position + len(space)

    def _may_end(self, text: str, position: int) -> bool | None:
        """Whether the value may end before `position`; None if that needs more text."""
        if len(self._space) > MAX_SPACES:
            return True
        if position == len(text):
            return True if self._final else None
        char = text[position]
        if self._closers:
            is_key = self._in_key or self._closers[-1] == "dict or set"
            return char in (":,}" if is_key else ",)]}")
        look = text[position : position + MAX_LOOK]
        return char == ")" or self._followers.may_follow(
            look,
            spaced=bool(self._space),
            has_inner_quotes=self._has_inner_quotes,
            whole=self._final or len(look) == MAX_LOOK,
        )
