"""Parameter values in plain text between markers, typed by the declared schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ...base.json_schema import JSON_TYPES
from ...base.limits import MAX_HELD_VALUE, MAX_WORD
from ..events import Malformation
from ..schema import ValueSchema, declare
from .incremental_grammar import Status
from .json_repair import JsonRepairer
from .json_text import WriteJson, escape_json, may_be_number
from .type_conversion import SPACE, text_to_json

_BRACKETS = {"object": "{", "array": "[("}
# A number, or the beginning of one.
_PARTIAL_NUMBER = re.compile(r"[+-]?(?:0[xX][\da-fA-F]*|(?:\d[\d_]*)?(?:\.\d*)?(?:[eE][+-]?\d*)?)")
_KEYWORDS = {"null": ("null", "none"), "boolean": ("true", "false")}

STRING = declare("string")
# Any type, for values that the model marks as not being strings.
JSON = declare(*(JSON_TYPES - {"string"}))
# The schema of an undeclared parameter, by `Format.undeclared_type`.
UNDECLARED = {"string": STRING, "json": declare(*JSON_TYPES)}


class _Openings(NamedTuple):
    """The possible beginnings of values of some JSON types.

    strings: whether strings are allowed, and whether only they are. brackets: of containers.
    words: keywords, in lower case. numbers: whether a number is allowed or converted.
    """

    strings: bool
    only_strings: bool
    brackets: str
    words: tuple[str, ...]
    numbers: bool


@lru_cache(maxsize=len(JSON_TYPES) ** 2)
def _find_openings(kinds: frozenset[str]) -> _Openings:
    strings = "string" in kinds
    return _Openings(
        strings,
        kinds == {"string"},
        "".join(brackets for kind, brackets in _BRACKETS.items() if kind in kinds),
        tuple(
            word
            for kind, words in _KEYWORDS.items()
            if kind in kinds or not strings
            for word in words
        ),
        not kinds.isdisjoint({"integer", "number", "boolean"}),
    )


def _is_too_long(text: str, word: str) -> bool:
    """Whether `text` is held back no longer: more than a word or number, and white space."""
    white_space = len(text) - len(word)
    return len(text) > MAX_WORD and (white_space > MAX_WORD or not may_be_number(word))


class SchemaValue:
    r"""Writes one parameter's text as JSON of a declared type; `text_to_json` has the rule.

    If the type is clear, the value streams: as a string if the schema or the text allows nothing
    else, as an object or array if strings are not allowed. Other text is held back to its end;
    if it is too long, it is a string.

    write: takes the pieces of JSON text.
    malformed: called where a streaming value needs more than delimiters to be JSON, or where text
        follows it. The rest is written as it is. None: it is repaired by guesses, or dropped.
    strip: the white space around the text that is markup: "\n" for one line break on each side,
        "" for none, None for all white space.
    quoted: the format writes strings that look like JSON as JSON strings.
    breaks: the most that `finish` may be told.

    Holds back a word of at most `MAX_WORD` characters, as much white space, a number of at most
    `MAX_NUMBER`, text in brackets or quotes of at most `MAX_HELD_VALUE`, and what `JsonRepairer`
    holds back of an object or array.
    """

    def __init__(
        self,
        write: WriteJson,
        malformed: Callable[[Malformation], None] | None,
        schema: ValueSchema,
        strip: str | None,
        *,
        quoted: bool = False,
        breaks: int = 0,
    ) -> None:
        self._write = write
        self._malformed = malformed
        self._schema = schema
        self._strip = strip
        self._quoted = quoted
        # The white space at a string's end that may be markup, and at most so much of it.
        self._stripped = SPACE if strip is None else "\n"
        self._most_stripped = MAX_WORD if strip is None else len(strip) + breaks
        self._openings = _find_openings(schema.kinds)
        self._json: JsonRepairer  # of a streaming object or array
        self._held = ""
        self._waiting: list[str] = []  # held-back text in pieces
        self._length = 0  # of `_waiting`, in characters
        self._state: Callable[[str], None] = self._open

    @property
    def held(self) -> str:
        """The text held back."""
        return self._held + "".join(self._waiting)

    @property
    def is_empty(self) -> bool:
        """Whether the text so far is white space."""
        return self._state in (self._open, self._find_type) and not self._held.strip(SPACE)

    @property
    def is_text(self) -> bool:
        """Whether the text has turned out to be a string without quotes, or too long to tell."""
        return self._state == self._in_string

    def feed(self, text: str) -> None:
        """Read the next piece of the text."""
        if self._held:
            text = self._held + text
            self._held = ""
        self._state(text)

    def finish(self, breaks: int = 0) -> None:
        """Write what is held back: the text has ended.

        breaks: so many line breaks at its end, beside `strip`, are markup if they are there.
        """
        held, self._held = self.held, ""
        for _ in range(breaks):
            held = held.removesuffix("\n")
        if self._state == self._in_json:
            self._finish_json(held)
        elif self._state == self._in_string:
            self._write(escape_json(self._strip_end(held)) + '"')
        elif self._state != self._write:
            text = self._strip_end(held)
            self._write(text_to_json(text, self._schema, quoted=self._quoted))

    def _open(self, text: str) -> None:
        if self._strip:
            text = text.removeprefix(self._strip)
        elif self._strip is None:
            text = text.lstrip(SPACE)
            if not text:
                return
        self._state = self._find_type
        if text:
            self._state(text)

    def _find_type(self, text: str) -> None:
        """Hold back the text while it may be something other than a string."""
        word = text.strip(SPACE)
        first = word[:1]
        openings = self._openings
        if not openings.strings and first and first in openings.brackets:
            self._json = JsonRepairer(self._write, malformed=self._malformed)
            self._state = self._in_json
            self._in_json(text)
        elif first and self._may_be_long(first):
            self._state = self._wait
            self._wait(text)
        elif not _is_too_long(text, word) and (not text.strip("\n") or self._may_be_word(word)):
            self._held = text
        else:
            self._begin_string(text)

    def _may_be_long(self, first: str) -> bool:
        """Whether a text with this beginning may be JSON of any length."""
        openings = self._openings
        may_be_json = bool(openings.brackets) or not openings.strings
        return (first in "{[(" and may_be_json) or (
            first == '"' and (self._quoted or not openings.strings)
        )

    def _may_be_word(self, word: str) -> bool:
        """Whether `word` is, or begins, a number, keyword or literal of the schema."""
        openings, has_literals = self._openings, self._schema.has_literals
        if openings.only_strings and not has_literals:
            return False
        if not word or has_literals:
            return True
        number = _PARTIAL_NUMBER.match(word) if openings.numbers else None
        return (number is not None and number.end() == len(word)) or any(
            keyword.startswith(word.lower()) for keyword in openings.words
        )

    def _wait(self, text: str) -> None:
        """Hold back all text, up to a limit."""
        self._waiting.append(text)
        self._length += len(text)
        if self._length > MAX_HELD_VALUE:
            text = "".join(self._waiting)
            self._waiting.clear()
            self._begin_string(text)

    def _begin_string(self, text: str) -> None:
        self._write('"')
        self._state = self._in_string
        self._in_string(text)

    def _in_string(self, text: str) -> None:
        # As `_strip_end`, whose call would be a tenth of a token's cost.
        if text and text[-1] in self._stripped:
            shown = max(len(text.rstrip(self._stripped)), len(text) - self._most_stripped)
            text, self._held = text[:shown], text[shown:]
        if text:
            self._write(escape_json(text))

    def _strip_end(self, text: str) -> str:
        """Return `text` without the white space that is markup if the text ends here."""
        return text.rstrip(SPACE) if self._strip is None else text.removesuffix(self._strip)

    def _in_json(self, text: str) -> None:
        if self._json.status is not Status.DONE:
            end = len(text.removesuffix(self._strip)) if self._strip else len(text)
            position = self._json.read_far(text[:end])
            if self._json.status is Status.MORE:
                self._held = text[position:]
                return
            text = text[position:]
        if self._malformed is not None and (behind := text.lstrip(SPACE)):
            self._malformed("extra_text")
            self._write(behind)
            self._state = self._write

    def _finish_json(self, held: str) -> None:
        if self._json.status is not Status.DONE:
            self._json.read(held.removesuffix(self._strip or ""), final=True)
            self._json.close()
