"""Plugins for JSON: one ends an answer at its first value, one removes repeated objects."""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from typing_extensions import override

from ...base.json_types import check_nesting
from ...tokenization.detokenizer import DetokenizerFactory, DetokenizerOptions, detokenizers
from ...tokenization.detokenizer.detokenizer_selection import vocabulary_ids
from ..completion import TextWatcher
from .base import Plugin, TokenGuard

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
    """Avoids an object that equals an earlier one, or removes it with the separator before it.

    Objects are in succession or in an array. The order of keys does not matter. With transformers,
    the model is led to another object where its next token would complete an equal one.
    """

    name = "no_duplicates"

    def __init__(self) -> None:
        self._tokenizer: object = None
        self._detokenizers: DetokenizerFactory | None = None
        self._endings: Endings = {}

    @override
    def guard(self, tokenizer: object) -> TokenGuard:
        if self._tokenizer is not tokenizer or self._detokenizers is None:
            self._detokenizers = detokenizers(tokenizer)
            self._endings = find_endings(self._detokenizers, vocabulary_ids(tokenizer))
            self._tokenizer = tokenizer
        return RepeatGuard(self._detokenizers, self._endings)

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


class ObjectScanner:
    """Finds objects, one character at a time. start: of the one that is open; None for none."""

    def __init__(self) -> None:
        self.start: int | None = None
        self._fed = 0
        self._scanner = JsonScanner()

    def feed(self, char: str) -> tuple[int, int] | None:
        """Process a character; return start and end of the object that it completes."""
        before = self._scanner.outermost
        self._scanner.feed(char)
        after = self._scanner.outermost
        self._fed += 1
        found, start = None, self.start
        if after in PLACES and before == after[:-1]:
            self.start = self._fed - 1
        elif start is not None and before in PLACES and after == before[:-1]:
            found, self.start = (start, self._fed), None
        elif not after:
            self.start = None
        return found


def find_objects(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each complete object."""
    return filter(None, map(ObjectScanner().feed, text))


# Texts that end an object, by their length without white space, and the tokens that begin so.
Endings = Mapping[int, Mapping[str, Collection[int]]]


def find_endings(factory: DetokenizerFactory, token_ids: Sequence[int]) -> Endings:
    """Return the parts up to each closing bracket of the tokens that have one."""
    found: dict[int, dict[str, set[int]]] = {}
    for token_id in token_ids:
        text = factory.token_bytes(token_id).decode(errors="ignore")
        for match in re.finditer("}", text):
            ending = text[: match.end()]
            by_text = found.setdefault(len("".join(ending.split())), {})
            by_text.setdefault(ending, set()).add(token_id)
    return found


class RepeatGuard(TokenGuard):
    """Reads one answer, and avoids the tokens that would complete an object once more."""

    def __init__(self, factory: DetokenizerFactory, endings: Endings) -> None:
        self._detokenizer = factory(DetokenizerOptions(), ())
        self._endings = endings
        self._scanner = ObjectScanner()
        self._text: list[str] = []
        # Objects by their length without white space, which the order of keys leaves as it is.
        self._seen = collections.defaultdict[int, set[str]](set)

    @override
    def feed(self, token_ids: Sequence[int]) -> Collection[int]:
        for char in self._detokenizer.feed_all(token_ids):
            self._text.append(char)
            if (found := self._scanner.feed(char)) is not None:
                text = "".join(self._text[slice(*found)])
                self._seen[_measure(text)].add(normalize(text) or "")
        start = self._scanner.start
        if start is None or not self._seen:
            return ()
        begun = "".join(self._text[start:])
        length = _measure(begun)
        return {
            token_id
            for more in self._endings.keys() & {seen - length for seen in self._seen}
            for ending, token_ids in self._endings[more].items()
            if normalize(begun + ending) in self._seen[length + more]
            for token_id in token_ids
        }


def _measure(text: str) -> int:
    return len("".join(text.split()))


def normalize(text: str) -> str | None:
    """Return an object with sorted keys; None if it is not JSON."""
    try:
        return json.dumps(json.loads(check_nesting(text)), sort_keys=True)
    except ValueError:
        return None
