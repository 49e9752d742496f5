"""Counts the steps of the grammar that an engine makes of a schema or an expression.

Engines unroll counted repetitions, also within each other, and list the properties that may follow
each property. So a short schema can take minutes of CPU time and gigabytes. The steps are computed
from the text alone, at a cost linear in it, before anything is made of it.

A step takes xgrammar 0.2.7 some 15 us with a vocabulary of 130,000. The weights below are times of
compiling, in steps: a class of characters is tried with many tokens, a literal with few.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ..base.json_schema import HOLDERS_BEFORE_2020, Path, walk
from ..base.json_types import JsonObject

# Steps of a literal character, a class, a class of most characters, and a pair of parts of an
# expression of which the first and all between them may be empty.
_LITERAL, _CLASS, _WIDE, _SKIP = 4, 64, 192, 1024
# Pairs between two neighbours of which one may be left out.
_USUAL_PAIRS = 2
# Copies of a repetition, squared, that take a step.
_SQUARED_COPIES = 256
# Steps of each character that a string's length allows; a longer length takes no more.
_LENGTH, _LONGEST = 128, 256
_MAX_DIGITS = 9
# Evaluations of a grammar's rules until it is known which of them may be empty.
_PASSES = 4

_COUNT = r"(?P<count>[*+?]|\{(?:\d++(?:,\d*+)?|,\d++)\})"
_BRACKETS = r"\[\^?\]?(?:\\.|[^\]\\])*+\]?"
_PATTERN = re.compile(
    rf"(?P<set>{_BRACKETS}|\\[wWdDsSpP]|\.)"
    r"|(?P<flags>\(\?[\w-]*+\))|(?P<open>\((?:\?(?:P?<\w*+>|<?[=!]|[\w-]*+[:>]))?)"
    rf"|(?P<close>\))|(?P<bar>\|)|{_COUNT}[?+]?|(?P<text>\\.|.)",
    re.DOTALL,
)
_RULES = re.compile(
    rf'(?P<skipped>\s++|\#[^\n]*+)|(?P<text>"(?:\\.|[^"\\])*+"?)|(?P<set>{_BRACKETS})'
    rf"|(?P<rule>[\w-]++(?=\s*+:))|(?P<name>[\w-]++)"
    rf"|(?P<open>\()|(?P<close>\))|(?P<bar>\|)|{_COUNT}|(?P<other>.)",
    re.DOTALL,
)

Parts: TypeAlias = Mapping[object, int]
"""Steps by what takes them. What a schema repeats is compiled once."""


class GrammarSize(NamedTuple):
    """The steps of a grammar: those of its objects, and those of patterns and lengths.

    largest: the steps of its largest part, and the path to it.
    """

    objects: int
    texts: Parts
    largest: tuple[int, Path] = (0, ())


class _Piece(NamedTuple):
    """A part of an expression.

    heads, tails: how many of its parts can be the first, and the last, where others are empty.
    wide: whether a class of most characters may be left out.
    """

    steps: int = 0
    skips: int = 0
    heads: int = 0
    tails: int = 0
    empty: bool = True
    wide: bool = False

    def then(self, other: _Piece) -> _Piece:
        """Return both in turn."""
        pairs = self.tails * other.heads
        return _Piece(
            self.steps + other.steps,
            self.skips + other.skips + max(0, pairs - _USUAL_PAIRS),
            self.heads + other.heads * self.empty,
            other.tails + self.tails * other.empty,
            self.empty and other.empty,
            self.wide or other.wide,
        )

    def either(self, other: _Piece) -> _Piece:
        """Return the alternatives."""
        return _Piece(
            self.steps + other.steps,
            self.skips + other.skips,
            max(self.heads, other.heads),
            max(self.tails, other.tails),
            self.empty or other.empty,
            self.wide or other.wide,
        )

    def repeat(self, written: str) -> _Piece:
        """Return the piece with a quantifier."""
        least, copies = _read_count(written)
        pairs = self.tails * self.heads
        between = copies * (copies - 1) // 2 * pairs if self.empty else (copies - 1) * pairs
        times = copies if self.empty else 1
        return _Piece(
            self.steps * copies + copies * copies // _SQUARED_COPIES,
            self.skips * copies + max(0, between - _USUAL_PAIRS * (copies - 1)),
            self.heads * times,
            self.tails * times,
            self.empty or least == 0,
            self.wide or (least == 0 and self.steps >= _WIDE),
        )

    @property
    def size(self) -> int:
        """All steps."""
        return self.steps + self.skips * _SKIP * (_WIDE // _CLASS if self.wide else 1)


_NOTHING = _Piece()


def _read_count(written: str) -> tuple[int, int]:
    """Return the least count of a quantifier, and the copies that it takes."""
    if written in ("?", "*", "+"):
        return int(written == "+"), 1
    least, comma, most = written.strip("{}").partition(",")
    first = int(least[:_MAX_DIGITS] or 0)
    last = int(most[:_MAX_DIGITS] or max(first, 1)) if comma else first
    return first, last


class _Reader:
    """Reads an expression, or a rule, a piece at a time. In a group there is another sequence."""

    def __init__(self) -> None:
        # Each open group: alternatives read so far, the sequence, and its last piece.
        self._open: list[tuple[_Piece | None, _Piece, _Piece]] = []
        self._begin()

    def _begin(self) -> None:
        self._others: _Piece | None = None
        self._sequence = self._last = _NOTHING

    def put(self, piece: _Piece) -> None:
        """Add a piece to the sequence."""
        self._sequence = self._sequence.then(self._last)
        self._last = piece

    def read(self, kind: str, text: str) -> None:
        """Read a token that is not a piece by itself."""
        if kind == "open":
            self._open.append((self._others, self._sequence, self._last))
            self._begin()
        elif kind == "bar":
            self._others, self._sequence, self._last = self._end(), _NOTHING, _NOTHING
        elif kind == "count":
            self._last = self._last.repeat(text)
        elif kind == "close" and self._open:
            group = self._end()
            self._others, self._sequence, self._last = self._open.pop()
            self.put(group)

    def _end(self) -> _Piece:
        """Return all of the innermost group."""
        whole = self._sequence.then(self._last)
        return whole if self._others is None else self._others.either(whole)

    def finish(self) -> _Piece:
        """Return all that was read."""
        while self._open:
            self.read("close", ")")
        return self._end()


def _read_set(text: str) -> _Piece:
    is_wide = text == "." or text.startswith("[^") or text in (r"\W", r"\D", r"\S", r"\P")
    return _Piece(_WIDE if is_wide else _CLASS, 0, 1, 1, empty=False)


def measure_pattern(pattern: str) -> int:
    """Return the steps of a regular expression."""
    reader = _Reader()
    for token in _PATTERN.finditer(pattern):
        kind, text = str(token.lastgroup), token[0]
        if kind == "set":
            reader.put(_read_set(text))
        elif kind == "text":
            reader.put(_Piece(_LITERAL, 0, 1, 1, empty=False))
        else:
            reader.read(kind, token["count"] or text)
    return reader.finish().size


def measure_rules(grammar: str) -> int:
    """Return the steps of a grammar of rules."""
    empty: set[str] = set()
    for _ in range(_PASSES):
        rules = dict(_read_rules(grammar, empty))
        found = {name for name, piece in rules.items() if piece.empty}
        if found <= empty:
            break
        empty |= found
    else:
        rules = dict(_read_rules(grammar, None))
    return sum(piece.size for piece in rules.values())


def _read_rules(grammar: str, empty: set[str] | None) -> Iterator[tuple[str, _Piece]]:
    """Yield the rules with their names. empty: those that may be empty; None for all of them."""
    rule, reader = "", _Reader()
    for token in _RULES.finditer(grammar):
        kind, text = str(token.lastgroup), token[0]
        if kind == "rule":
            yield rule, reader.finish()
            rule, reader = text, _Reader()
        elif kind == "set":
            reader.put(_read_set(text))
        elif kind == "text":
            reader.put(_Piece(len(text), 0, 1, 1, empty=len(text) <= len('""')))
        elif kind == "name":
            reader.put(_Piece(_LITERAL, 0, 1, 1, empty=empty is None or text in empty))
        else:
            reader.read(kind, text)
    yield rule, reader.finish()


def measure_schema(schema: object) -> GrammarSize:
    """Return the size of a schema; what is no schema in it takes no steps."""
    objects, texts, largest = 0, dict[object, int](), (0, Path())
    for path, part in walk(schema, HOLDERS_BEFORE_2020):
        if not isinstance(part, dict):
            continue
        found = _measure_object(part)
        objects += found
        for word, key, steps in _measure_texts(part):
            texts[key] = steps
            largest = max(largest, (steps, (*path, word)), key=_by_steps)
        largest = max(largest, (found, path), key=_by_steps)
    return GrammarSize(objects, texts, largest)


def _by_steps(part: tuple[int, Path]) -> int:
    return part[0]


def _measure_object(schema: JsonObject) -> int:
    """Return the pairs of properties of which one may follow the other, for each count of them."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return 0
    required = schema.get("required")
    named = {str(name) for name in required} if isinstance(required, list) else ()
    pairs = run = 0
    for name in properties:
        run += 1
        pairs += run
        run = 0 if name in named else run
    least, most = map(_read_bound, (schema.get("minProperties"), schema.get("maxProperties")))
    if not least and most is None:
        return pairs
    return pairs * int(max(1, min(len(properties) if most is None else most, len(properties))))


def _measure_texts(schema: JsonObject) -> Iterator[tuple[str, object, int]]:
    """Yield the keyword of each bound of a string, that which is compiled once, and its steps."""
    pattern, properties = schema.get("pattern"), schema.get("patternProperties")
    least, most = map(_read_bound, (schema.get("minLength"), schema.get("maxLength")))
    if isinstance(pattern, str):
        yield "pattern", pattern, measure_pattern(pattern)
    if least or most is not None:
        longest = int(min(_LONGEST, max(0, least or 0, most or 0)))
        yield "minLength" if most is None else "maxLength", (least, most), longest * _LENGTH
    for pattern in properties if isinstance(properties, dict) else ():
        yield "patternProperties", pattern, measure_pattern(pattern)


def _read_bound(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def measure_tag(tag: object) -> GrammarSize:
    """Return the size of a structural tag, which may be of any form."""
    objects, texts = 0, dict[object, int]()
    waiting: list[object] = [tag]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, dict):
            continue
        pattern, rules, length = part.get("pattern"), part.get("grammar"), part.get("max_chars")
        if isinstance(pattern, str):
            texts[pattern] = measure_pattern(pattern)
        if isinstance(rules, str):
            texts[rules] = measure_rules(rules)
        if isinstance(length, int):
            texts[length] = max(0, min(_LONGEST, length)) * _LITERAL
        for word, value in part.items():
            if word in ("json_schema", "schema"):
                found = measure_schema(value)
                objects += found.objects
                texts |= found.texts
            else:
                waiting.append(value)
    return GrammarSize(objects, texts)
