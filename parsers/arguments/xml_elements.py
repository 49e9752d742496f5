"""Arguments as nested XML elements: `<city>Oslo</city><tags><item>a</item></tags>`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from typing_extensions import override

from ..schema import ValueSchema
from .incremental_grammar import IncrementalGrammar, Status, partial_length
from .json_text import escape_json
from .schema_value import UNDECLARED, SchemaValue
from .tool_calls import ToolCallEmitter

# The name of a list's elements.
ITEM = "item"
# A longer tag is not a tag.
MAX_TAG = 256

# The JSON of an element without content, by its declared types.
_EMPTY = {frozenset({"object"}): "{}", frozenset({"array"}): "[]", frozenset({"null"}): "null"}
_TAG = re.compile(r"<(/?)([^<>/][^<>]*)>")
_PARTIAL_TAG = re.compile(r"<(?:/?[^<>]*)?")
_SPACE = " \t\r\n"


@dataclass
class _Element:
    """An open element.

    end: its end tag. schema: what is declared for it.
    closer: the bracket that closes the object or list it turned out to be; empty while that is not
        known, and if it contains text.
    """

    tag: str
    end: str
    schema: ValueSchema
    value: SchemaValue | None = None
    closer: str = ""
    members: int = 0


class XmlElements(IncrementalGrammar):
    """Reads the members of a call's arguments: one element each, named by its key.

    An element contains text, typed by the declared schema, or further elements: the members of an
    object, or a list of `item` elements.

    tag_prefix: stands before every tag, never empty. The end tag of the innermost element also
        counts without it.

    Holds back a tag of at most `MAX_TAG` characters after its prefix, white space of as many, and
    what `SchemaValue` holds back.
    """

    def __init__(self, calls: ToolCallEmitter, tag_prefix: str) -> None:
        self._calls = calls
        self._tag_prefix = tag_prefix
        self._open: list[_Element] = []
        self._space = ""
        self._state = self._read

    @property
    @override
    def in_string(self) -> bool:
        return False  # a tag counts everywhere

    @property
    @override
    def in_argument(self) -> bool:
        return bool(self._open)

    @override
    def take_unexpected(self, char: str) -> None:
        self._text(char)

    @override
    def close(self) -> None:
        while self._open:
            self._end()
        self.status = Status.DONE

    def _read(self, text: str, position: int) -> int:
        """Read text up to the next tag, or the tag at `position`."""
        tag_prefix = self._tag_prefix
        end = self._open[-1].end if self._open else tag_prefix
        starts = [start for mark in (tag_prefix, end) if (start := text.find(mark, position)) >= 0]
        if not starts:
            held = 0
            if not self._final:
                held = max(
                    partial_length(text, tag_prefix, position), partial_length(text, end, position)
                )
            self._text(text[position : len(text) - held])
            return len(text) - held
        if (start := min(starts)) > position:
            self._text(text[position:start])
            return start
        if text.startswith(tag_prefix, position):
            return self._tag(text, position)
        self._end()
        return position + len(end)

    def _tag(self, text: str, position: int) -> int:
        """Read the tag whose prefix stands at `position`."""
        start = position + len(self._tag_prefix)
        match = _TAG.match(text, start)
        if match is None:
            if self._final or not _may_be_tag(text, start):
                self.status = Status.UNEXPECTED
            return position
        slash, tag = match.groups()
        innermost = self._open[-1] if self._open else None
        if slash and (innermost is None or tag != innermost.tag):
            self.status = Status.UNEXPECTED  # the end of the call, or of an element never begun
            return position
        if slash:
            self._end()
        elif innermost is not None and innermost.value is not None:
            self._text(text[position : match.end()])  # a tag inside text
        else:
            self._begin(tag)
        return match.end()

    def _text(self, text: str) -> None:
        """Take text of the innermost element; text between elements is dropped."""
        if not text or not self._open or self._open[-1].closer:
            return
        element = self._open[-1]
        if element.value is None:
            self._space += text
            if len(self._space) <= MAX_TAG and not self._space.strip(_SPACE):
                return  # another element may follow
            text, self._space = self._space, ""
            element.value = self._new_value(element)
        element.value.feed(text)

    def _begin(self, tag: str) -> None:
        """Open an element; its parent is therefore a list or an object."""
        self._space = ""
        if not self._open:
            self._calls.member(tag)
            self._open.append(_Element(tag, f"</{tag}>", self._calls.value_schema(tag)))
            return
        parent = self._open[-1]
        if not parent.closer:
            parent.closer = "]" if tag == ITEM else "}"
            self._calls.arguments("[" if tag == ITEM else "{")
        key = "" if parent.closer == "]" else f'"{escape_json(tag)}": '
        self._calls.arguments((", " if parent.members else "") + key)
        parent.members += 1
        self._open.append(_Element(tag, f"</{tag}>", parent.schema.member(tag)))

    def _end(self) -> None:
        """Close the innermost element and write what is held back of its text."""
        element = self._open.pop()
        if element.closer:
            self._calls.arguments(element.closer)
            return
        if element.value is None:
            empty = _EMPTY.get(element.schema.kinds) if not self._space else None
            if empty is not None:
                self._calls.arguments(empty)
                return
            element.value = self._new_value(element)
            if self._space:
                element.value.feed(self._space)
            self._space = ""
        element.value.finish()

    def _new_value(self, element: _Element) -> SchemaValue:
        schema = element.schema if element.schema.declared else UNDECLARED["json"]
        return SchemaValue(self._calls.arguments, schema, "")


def _may_be_tag(text: str, start: int) -> bool:
    """Whether `text` ends before the end of a tag that begins at `start`."""
    may_follow = start == len(text) or _PARTIAL_TAG.fullmatch(text, start) is not None
    return may_follow and len(text) - start <= MAX_TAG
