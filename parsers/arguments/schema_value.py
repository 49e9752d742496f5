"""Parameter values that stand as plain text between markers, typed by the declared schema."""

from __future__ import annotations

import re
from collections.abc import Callable

from .json_repair import MAX_WORD, JsonRepairer, Out, Status, quoted, scalar

_KEYWORDS = {"null": ("null", "none"), "boolean": ("true", "false")}
_BRACKETS = {"object": "{", "array": "[("}
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*)?(?:\.\d*)?(?:[eE][+-]?\d*)?")
_SPACE = " \t\r\n"
_JSON_KINDS = frozenset({"null", "boolean", "integer", "number", "object", "array", "string"})
# Schema types by what a text may turn out to be, where nothing is declared.
UNDECLARED = {"string": frozenset({"string"}), "json": _JSON_KINDS}


class SchemaValue:
    r"""One parameter's text to JSON: a declared string stays a string, a number a number.

    out: takes pieces of JSON text.
    kinds: the JSON types that the value may have, not empty. A text that fits
        none of the others is a string, declared or not.
    strip: white space around the text that is markup: "\n" for one line break
        on each side, "" for none, None for all there is.

    What waits for the end: a number or keyword of at most `MAX_WORD` characters,
    and white space of as many. Strings, objects and arrays stream.
    """

    def __init__(self, out: Out, kinds: frozenset[str], strip: str | None) -> None:
        self._out = out
        self._strip = strip
        self._words = tuple(
            word for kind, words in _KEYWORDS.items() if kind in kinds for word in words
        )
        self._numbers = not kinds.isdisjoint({"integer", "number"})
        self._brackets = "".join(brackets for kind, brackets in _BRACKETS.items() if kind in kinds)
        self._only_string = kinds == {"string"}
        self._literal = JsonRepairer(out)
        self._held = ""
        self._state: Callable[[str], None] = self._open

    @property
    def held(self) -> str:
        """What waits for its end."""
        return self._held

    def feed(self, text: str) -> None:
        """Take the next part of the text."""
        if self._held:
            text = self._held + text
            self._held = ""
        self._state(text)

    def finish(self) -> None:
        """Give out what waits: the text ends here."""
        held, self._held = self._held, ""
        if self._state == self._in_literal:
            self._finish_literal(held)
            return
        if self._state != self._in_string:
            word = held.strip(_SPACE)
            if not self._only_string and word and self._fits(word, whole=True):
                self._out(scalar(_KEYWORD_JSON.get(word.lower(), word)))
                return
            self._out('"')
        self._out(quoted(self._without_frame(held)) + '"')

    def _open(self, text: str) -> None:
        if self._strip:
            text = text.removeprefix(self._strip)
        elif self._strip is None:
            text = text.lstrip(_SPACE)
            if not text:
                return
        self._state = self._begin_string if self._only_string else self._undecided
        self._state(text)

    def _undecided(self, text: str) -> None:
        """Wait while the text may be a number or a keyword."""
        word = text.strip(_SPACE)
        if word and word[0] in self._brackets:
            self._state = self._in_literal
            self._in_literal(text)
        elif len(text) <= MAX_WORD and (not word or self._fits(word, whole=False)):
            self._held = text
        else:
            self._begin_string(text)

    def _fits(self, word: str, *, whole: bool) -> bool:
        lower = word.lower()
        if whole:
            return lower in self._words or (self._numbers and _is_number(word))
        number = _NUMBER.match(word) if self._numbers else None
        return any(keyword.startswith(lower) for keyword in self._words) or (
            number is not None and number.end() == len(word)
        )

    def _begin_string(self, text: str) -> None:
        self._out('"')
        self._state = self._in_string
        self._in_string(text)

    def _in_string(self, text: str) -> None:
        shown = self._without_frame(text)
        if len(text) - len(shown) > MAX_WORD:
            shown = text[:-MAX_WORD]
        if shown:
            self._out(quoted(shown))
        self._held = text[len(shown) :]

    def _without_frame(self, text: str) -> str:
        """Return `text` without what is markup if the text ends here."""
        return text.rstrip(_SPACE) if self._strip is None else text.removesuffix(self._strip)

    def _in_literal(self, text: str) -> None:
        if self._literal.status is not Status.DONE:
            self._held = self._literal.read_through(text)

    def _finish_literal(self, held: str) -> None:
        if self._literal.status is not Status.DONE:
            self._literal.read(held, final=True)
            self._literal.close()


_KEYWORD_JSON = {"none": "null", "null": "null", "true": "true", "false": "false"}


def _is_number(word: str) -> bool:
    return scalar(word)[0] not in '"tfn'
