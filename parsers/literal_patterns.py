"""Reads regular expressions that are little more than literal text, without compiling them.

A checkpoint's description gives its markers as expressions, and an expression of an untrusted file
must not run. What is read: characters, escapes, white space, groups and alternatives, and named
groups of one class of characters.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..base.limits import MAX_PATTERN_ALTERNATIVES, MAX_PATTERN_DEPTH, MAX_PATTERN_LENGTH


class PatternError(ValueError):
    """An expression that is not read; the message says why."""


class Part(enum.Enum):
    """A part of an expression that is no literal text.

    GAP: optional white space. END: the end of the text.
    """

    GAP = enum.auto()
    END = enum.auto()


@dataclass(frozen=True)
class Capture:
    """A named group."""

    name: str


Piece = str | Part | Capture
Pieces = tuple[Piece, ...]

# Each character has one way to match, so a failure takes no second look at a class.
_GROUP = re.compile(
    r"\(\?P?<(?P<name>\w+)>(?P<body>(?:\\.|\[\^?+\]?+(?:\\.|[^\]\\])*\]|[^()\[\\])*)\)"
)
_CLASS = r"(?:\\[wS]|\[\^?\]?(?:\\.|[^\]\\\[])+\])"
_RUN = re.compile(rf"(?:{_CLASS}){{1,2}}[*+]\??|\.[*+]\?")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_pattern(pattern: str) -> list[Pieces]:
    """Return the alternatives of an expression. Raises `PatternError`."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise PatternError(f"has more than {MAX_PATTERN_LENGTH} characters")
    reader = _Reader(pattern)
    alternatives = reader.read_alternatives(0)
    if reader.position < len(pattern):
        raise PatternError("has a bracket too many")
    return [_merge(pieces) for pieces in alternatives]


def split_literals(pieces: Sequence[Piece]) -> list[str]:
    """Return the literal texts between white space. Raises `PatternError` for other parts."""
    for piece in pieces:
        if not isinstance(piece, str) and piece is not Part.GAP:
            raise PatternError("has a part that is no literal text")
    return [piece for piece in pieces if isinstance(piece, str)]


class _Reader:
    """A position in an expression."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.position = 0

    def read_alternatives(self, depth: int) -> list[Pieces]:
        if depth > MAX_PATTERN_DEPTH:
            raise PatternError(f"has groups deeper than {MAX_PATTERN_DEPTH} levels")
        found = self._read_sequence(depth)
        while self._take("|"):
            found += self._read_sequence(depth)
        return found

    def _read_sequence(self, depth: int) -> list[Pieces]:
        found: list[list[Piece]] = [[]]
        while self.position < len(self._pattern) and self._pattern[self.position] not in "|)":
            options = self._repeat(self._read_item(depth))
            if len(found) * len(options) > MAX_PATTERN_ALTERNATIVES:
                raise PatternError(f"has more than {MAX_PATTERN_ALTERNATIVES} alternatives")
            if len(options) > 1:
                found = [[*one, *more] for one, more in itertools.product(found, options)]
            else:
                for one in found:
                    one.extend(options[0])
        return [tuple(pieces) for pieces in found]

    def _read_item(self, depth: int) -> list[Pieces]:
        pattern, start = self._pattern, self.position
        if self._take("(?:"):
            options = self.read_alternatives(depth + 1)
            if not self._take(")"):
                raise PatternError("has a group without an end")
            return options
        if group := _GROUP.match(pattern, start):
            self.position = group.end()
            if not _RUN.fullmatch(group["body"]):
                raise PatternError(f"has a group {group['name']!r} that is not a run of one class")
            return [(Capture(group["name"]),)]
        return [(self._read_character(),)]

    def _read_character(self) -> Piece:
        char = self._pattern[self.position]
        self.position += 1
        if char == "$":
            return Part.END
        if char in "([.^*+?{" and not self._is_brace(char):
            raise PatternError(f"has {char!r} at {self.position - 1}, which is not read")
        if char != "\\":
            return char
        escaped = self._pattern[self.position : self.position + 1]
        self.position += 1
        if part := {"s": Part.GAP, "Z": Part.END, "z": Part.END}.get(escaped):
            return part
        if not escaped or (escaped.isalnum() and escaped not in _ESCAPES):
            raise PatternError(f"has the escape \\{escaped}, which is not read")
        return _ESCAPES.get(escaped, escaped)

    def _is_brace(self, char: str) -> bool:
        """Whether `char` is a brace that repeats nothing."""
        return char == "{" and not re.match(r"[\d,]", self._pattern[self.position :])

    def _repeat(self, options: list[Pieces]) -> list[Pieces]:
        """Return `options` as the quantifier after them wants."""
        found = re.compile(r"[*+?][?+]?|\{[\d,]*\}").match(self._pattern, self.position)
        if found is None or found.group() == "{}":
            return options
        self.position = found.end()
        space = all(not pieces or pieces in ((Part.GAP,), ("\n",), (" ",)) for pieces in options)
        if space:
            return [(Part.GAP,)]
        if found.group()[0] != "?":
            raise PatternError(f"repeats text with {found.group()!r}")
        return [*options, ()]

    def _take(self, text: str) -> bool:
        found = self._pattern.startswith(text, self.position)
        self.position += len(text) if found else 0
        return found


def _merge(pieces: Pieces) -> Pieces:
    """Join adjacent texts, and adjacent white space."""
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if isinstance(piece, str) and isinstance(last, str):
            merged[-1] = last + piece
        elif piece is not Part.GAP or last is not Part.GAP:
            merged.append(piece)
    return tuple(merged)
