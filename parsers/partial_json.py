"""Reads the beginning of a JSON text: what is open at its end."""

from __future__ import annotations

import json
import re
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from ..base.limits import MAX_REST_DEPTH

_STRING = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*'
_WHOLE_NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(
    rf"""
    (?P<space>[ \n\r\t]+)
    | (?P<mark>[{{}}\[\]:,])
    | (?P<string>{_STRING}")
    | (?P<open_string>{_STRING}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?)
    | (?P<word>[-+.\w]+)
    """,
    re.VERBOSE,
)
_SCALAR = re.compile(rf"true|false|null|{_WHOLE_NUMBER}")
# Every beginning of a scalar that is not a scalar itself.
_BEGUN_SCALAR = re.compile(
    r"t|tr|tru|f|fa|fal|fals|n|nu|nul|-|-?(?:0|[1-9]\d*)(?:\.|(?:\.\d+)?[eE][+-]?)"
)


class Due(Enum):
    """The next part of the innermost container, or of the text."""

    VALUE = auto()  # a value must come
    FIRST_ITEM = auto()  # a value or the end of the array
    FIRST_KEY = auto()  # a key or the end of the object
    KEY = auto()
    COLON = auto()
    AFTER = auto()  # a comma or the end of the container


class Open(msgspec.Struct):
    """A container without its end.

    keys: of an object, the last one of the member that is open. starts, ends: of the values in the
    text; one that is open has no end.
    """

    is_object: bool
    keys: list[str] = []
    starts: list[int] = []
    ends: list[int] = []


class PartialJson(NamedTuple):
    """The end of a text. tail: of the string, key, number or word that is not complete there."""

    containers: list[Open]
    due: Due
    tail: str


def read_partial(text: str) -> PartialJson | None:
    """Return what is open at the end of `text`; None if no JSON begins so, or it nests too deep."""
    reader = _Reader()
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or not reader.take(token, at_end=token.end() == len(text)):
            return None
        position = token.end()
    return PartialJson(reader.containers, reader.due, reader.tail)


class _Reader:
    """The state between two tokens."""

    def __init__(self) -> None:
        self.containers: list[Open] = []
        self.due = Due.VALUE
        self.tail = ""

    def take(self, token: re.Match[str], *, at_end: bool) -> bool:
        """Read a token; return whether it may come next."""
        text, kind = token.group(), token.lastgroup
        is_key = self.due in (Due.FIRST_KEY, Due.KEY)
        if kind == "space":
            return True
        if kind == "mark":
            return self._take_mark(token)
        if kind == "string":
            return self._take_key(text) if is_key else self._take_value(token, whole=True)
        if kind == "open_string":
            self.tail = text
            return at_end and (is_key or self._take_value(token, whole=False))
        return self._take_word(token, at_end=at_end)

    def _take_key(self, text: str) -> bool:
        self.containers[-1].keys.append(json.loads(text))
        self.due = Due.COLON
        return True

    def _take_word(self, token: re.Match[str], *, at_end: bool) -> bool:
        """Read a number or a word. At the end of the text a number may go on."""
        text = token.group()
        whole = _SCALAR.fullmatch(text) is not None
        if not at_end or (whole and not text[-1].isdigit()):
            return whole and self._take_value(token, whole=True)
        self.tail = text
        begun = whole or _BEGUN_SCALAR.fullmatch(text) is not None
        return begun and self._take_value(token, whole=False)

    def _take_value(self, token: re.Match[str], *, whole: bool) -> bool:
        if self.due not in (Due.VALUE, Due.FIRST_ITEM):
            return False
        if self.containers:
            self.containers[-1].starts.append(token.start())
        self.due = Due.VALUE
        if whole:
            self._end_value(token)
        return True

    def _end_value(self, token: re.Match[str]) -> None:
        if self.containers:
            self.containers[-1].ends.append(token.end())
        self.due = Due.AFTER

    def _take_mark(self, token: re.Match[str]) -> bool:
        mark = token.group()
        if mark in "{[":
            return self._open(token, is_object=mark == "{")
        if not self.containers:
            return False
        is_object = self.containers[-1].is_object
        if mark in "}]":
            ends = self.due in (Due.AFTER, Due.FIRST_KEY if is_object else Due.FIRST_ITEM)
            if not ends or is_object is not (mark == "}"):
                return False
            self.containers.pop()
            self._end_value(token)
        elif mark == ":":
            if self.due is not Due.COLON:
                return False
            self.due = Due.VALUE
        else:
            if self.due is not Due.AFTER:
                return False
            self.due = Due.KEY if is_object else Due.VALUE
        return True

    def _open(self, token: re.Match[str], *, is_object: bool) -> bool:
        if len(self.containers) >= MAX_REST_DEPTH or not self._take_value(token, whole=False):
            return False
        self.containers.append(Open(is_object))
        self.due = Due.FIRST_KEY if is_object else Due.FIRST_ITEM
        return True
