"""Parameter values that stand as plain text between markers, typed by the declared schema."""

from __future__ import annotations

import re
from collections.abc import Callable

from .incremental_grammar import Status
from .json_repair import MAX_WORD, JsonRepairer
from .json_text import WriteJson, escape_json, is_number, word_to_json

_KEYWORDS = {"null": ("null", "none"), "boolean": ("true", "false")}
_KEYWORD_JSON = {"none": "null", "null": "null", "true": "true", "false": "false"}
_BRACKETS = {"object": "{", "array": "[("}
# A number or the beginning of one.
_PARTIAL_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*)?(?:\.\d*)?(?:[eE][+-]?\d*)?")
_SPACE = " \t\r\n"
_JSON_KINDS = frozenset({"null", "boolean", "integer", "number", "object", "array", "string"})
# The types that the value of an undeclared parameter may have, by `Format.undeclared_type`.
UNDECLARED = {"string": frozenset({"string"}), "json": _JSON_KINDS}


class SchemaValue:
    r"""Writes one parameter's text as JSON of a declared type. Strings, objects and arrays stream.

    write: takes the pieces of JSON text.
    kinds: the JSON types that the value may have, at least one. A text that fits none of them is
        written as a string, declared or not.
    strip: the white space around the text that is markup: "\n" for one line break on each side,
        "" for nothing, None for all white space.

    Holds back a number or keyword of at most `MAX_WORD` characters and white space of as many, and
    what `JsonRepairer` holds back of an object or array.
    """

    def __init__(self, write: WriteJson, kinds: frozenset[str], strip: str | None) -> None:
        self._write = write
        self._strip = strip
        self._words = tuple(
            word for kind, words in _KEYWORDS.items() if kind in kinds for word in words
        )
        self._numbers = not kinds.isdisjoint({"integer", "number"})
        self._brackets = "".join(brackets for kind, brackets in _BRACKETS.items() if kind in kinds)
        self._only_string = kinds == {"string"}
        self._json = JsonRepairer(write)
        self._held = ""
        self._state: Callable[[str], None] = self._open

    @property
    def held(self) -> str:
        """The text held back."""
        return self._held

    def feed(self, text: str) -> None:
        """Read the next piece of the text."""
        if self._held:
            text = self._held + text
            self._held = ""
        self._state(text)

    def finish(self) -> None:
        """Write what is held back: the text ends here."""
        held, self._held = self._held, ""
        if self._state == self._in_json:
            self._finish_json(held)
            return
        if self._state != self._in_string:
            word = held.strip(_SPACE)
            if not self._only_string and word and self._fits(word, whole=True):
                self._write(word_to_json(_KEYWORD_JSON.get(word.lower(), word)))
                return
            self._write('"')
        self._write(escape_json(self._strip_end(held)) + '"')

    def _open(self, text: str) -> None:
        if self._strip:
            text = text.removeprefix(self._strip)
        elif self._strip is None:
            text = text.lstrip(_SPACE)
            if not text:
                return
        self._state = self._begin_string if self._only_string else self._find_type
        self._state(text)

    def _find_type(self, text: str) -> None:
        """Wait while the text may be a number or a keyword."""
        word = text.strip(_SPACE)
        if word and word[0] in self._brackets:
            self._state = self._in_json
            self._in_json(text)
        elif len(text) <= MAX_WORD and (not word or self._fits(word, whole=False)):
            self._held = text
        else:
            self._begin_string(text)

    def _fits(self, word: str, *, whole: bool) -> bool:
        """Whether `word` is a number or keyword of `kinds`, or begins one unless `whole`."""
        lower = word.lower()
        if whole:
            return lower in self._words or (self._numbers and is_number(word))
        number = _PARTIAL_NUMBER.match(word) if self._numbers else None
        return any(keyword.startswith(lower) for keyword in self._words) or (
            number is not None and number.end() == len(word)
        )

    def _begin_string(self, text: str) -> None:
        self._write('"')
        self._state = self._in_string
        self._in_string(text)

    def _in_string(self, text: str) -> None:
        shown = self._strip_end(text)
        if len(text) - len(shown) > MAX_WORD:
            shown = text[:-MAX_WORD]
        if shown:
            self._write(escape_json(shown))
        self._held = text[len(shown) :]

    def _strip_end(self, text: str) -> str:
        """Return `text` without the white space that is markup if the text ends here."""
        return text.rstrip(_SPACE) if self._strip is None else text.removesuffix(self._strip)

    def _in_json(self, text: str) -> None:
        if self._json.status is not Status.DONE:
            self._held = self._json.read_through(text)

    def _finish_json(self, held: str) -> None:
        if self._json.status is not Status.DONE:
            self._json.read(held, final=True)
            self._json.close()
