"""Plugins for JSON: one ends an answer at its first value, one removes repeated objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from typing_extensions import override

from ..completion import TextWatcher
from .base import Plugin

CLOSING = {"{": "}", "[": "]"}
_DELIMITERS = frozenset(' \t\r\n,:{}[]"')
_SCALAR = re.compile(r"(?:-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)?")


class JsonScanner:
    """Follows the brackets of JSON, one character at a time, strings and escapes included.

    start: number of characters before the outermost open bracket, or before the last one.
    """

    def __init__(self) -> None:
        self.start = 0
        self._fed = 0
        self._open: list[str] = []
        self._word = ""
        self._in_string = False
        self._escaped = False

    @property
    def outermost(self) -> str:
        """The outermost open brackets, three at most; "" outside of JSON."""
        return "".join(self._open[:3])

    def feed(self, char: str) -> bool:
        """Process a character; return whether it closed the outermost bracket.

        A bracket that closes another one than the last, or a word outside of strings that is no
        JSON, proves that this is not JSON; the scanner then looks for the next beginning.
        """
        self._fed += 1
        if self._in_string:
            self._read_string(char)
        elif self._open and char not in _DELIMITERS:
            self._word += char
        else:
            word, self._word = self._word, ""
            if not _SCALAR.fullmatch(word):
                self._open.clear()
            return self._read_delimiter(char)
        return False

    def _read_string(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._in_string = False

    def _read_delimiter(self, char: str) -> bool:
        if char in CLOSING:
            if not self._open:
                self.start = self._fed - 1
            self._open.append(char)
        elif not self._open:
            pass
        elif char == '"':
            self._in_string = True
        elif char == CLOSING[self._open[-1]]:
            self._open.pop()
            return not self._open
        elif char in CLOSING.values():
            self._open.clear()
        return False


class JsonStop(Plugin):
    """Stops where the first JSON value is complete; text before it is kept."""

    name = "json_stop"

    @override
    def watch(self) -> TextWatcher:
        return JsonWatcher()


class JsonWatcher(TextWatcher):
    """Reads one answer."""

    name = JsonStop.name

    def __init__(self) -> None:
        self._scanner = JsonScanner()
        self._read: list[str] = []

    @override
    def feed(self, text: str) -> int | None:
        for count, char in enumerate(text, 1):
            self._read.append(char)
            if self._scanner.feed(char):
                value = "".join(self._read[self._scanner.start :])
                if normalize(value) is not None:
                    return count
        return None


# An object is separate or directly in an array; one inside another object is part of that.
PLACES = ("{", "[{")
SEPARATORS = ", \t\r\n"


class NoDuplicates(Plugin):
    """Removes an object that equals an earlier one, with the separator before it.

    Objects are in succession or in an array. The order of keys does not matter.
    """

    name = "no_duplicates"

    @override
    def clean(self, text: str) -> str:
        seen: set[str] = set()
        kept, end = [], 0
        for start, stop in find_objects(text):
            value = normalize(text[start:stop])
            if value is None:
                continue
            if value in seen:
                kept.append(text[end:start].rstrip(SEPARATORS))
                end = stop
            seen.add(value)
        return "".join((*kept, text[end:]))


def find_objects(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each complete object."""
    scanner = JsonScanner()
    start: int | None = None
    for position, char in enumerate(text):
        before = scanner.outermost
        scanner.feed(char)
        after = scanner.outermost
        if after in PLACES and before == after[:-1]:
            start = position
        elif start is not None and before in PLACES and after == before[:-1]:
            yield start, position + 1
            start = None
        elif not after:
            start = None


def normalize(text: str) -> str | None:
    """Return an object with sorted keys; None if it is not JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return None
