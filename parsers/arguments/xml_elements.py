"""Arguments as nested XML elements: `<city>Oslo</city><tags><item>a</item></tags>`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..schema import allowed_types, find_member
from .json_repair import IncrementalGrammar, Status, partial_length, quoted
from .schema_value import UNDECLARED, SchemaValue
from .tool_calls import ToolCallEmitter

# An element of this name is a list's.
ITEM = "item"
MAX_TAG = 256

# An element without content, by what is declared for it.
_EMPTY = {frozenset({"object"}): "{}", frozenset({"array"}): "[]", frozenset({"null"}): "null"}
_TAG = re.compile(r"<(/?)([^<>/][^<>]*)>")
_PARTIAL_TAG = re.compile(r"<(?:/?[^<>]*)?")
_SPACE = " \t\r\n"


@dataclass
class _Element:
    """An element that is open.

    end: its end tag. schema: what is declared for it. closer: of the object or list that it turned
    out to be; empty while that is not clear, or if it holds text.
    """

    tag: str
    end: str
    schema: dict[str, Any]
    value: SchemaValue | None = None
    closer: str = ""
    members: int = 0


class XmlElements(IncrementalGrammar):
    """Reads the members of a call's arguments; each element is named by its key.

    What an element holds is text, typed by the declared schema, or further
    elements: a list of `item`s, or an object. `tag_prefix`: stands in front of every tag;
    an end tag counts without it, too, if it is that of the open element.

    What waits: a tag of at most `MAX_TAG` characters, and what `SchemaValue` holds.
    """

    def __init__(self, calls: ToolCallEmitter, tag_prefix: str) -> None:
        self._calls = calls
        self._tag_prefix = tag_prefix
        self._open: list[_Element] = []
        self._space = ""
        self._state = self._read

    @property
    def in_string(self) -> bool:
        """See `JsonRepairer`: a tag always counts."""
        return False

    def force(self, char: str) -> None:
        """Take the character that `read` got stuck at: as text, or not at all between elements."""
        self._text(char)

    def close(self) -> None:
        """End the elements that are open."""
        while self._open:
            self._end()
        self.status = Status.DONE

    def _read(self, text: str, position: int) -> int:
        """Read text up to the next tag, or the tag that stands at `position`."""
        tag_prefix = self._tag_prefix
        end = self._open[-1].end if self._open else tag_prefix
        starts = [start for mark in (tag_prefix, end) if (start := text.find(mark, position)) >= 0]
        if not starts:
            held = (
                0
                if self._final
                else max(
                    partial_length(text, tag_prefix, position), partial_length(text, end, position)
                )
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
        """Read the tag behind the sigil at `position`."""
        start = position + len(self._tag_prefix)
        match = _TAG.match(text, start)
        if match is None:
            may_follow = start == len(text) or _PARTIAL_TAG.fullmatch(text, start) is not None
            if may_follow and len(text) - start <= MAX_TAG and not self._final:
                return position
            self.status = Status.UNEXPECTED
            return position
        slash, tag = match.groups()
        if not slash and self._open and self._open[-1].value is not None:
            self._text(text[position : match.end()])  # a tag in the midst of text
        elif not slash:
            self._begin(tag)
        elif self._open and tag == self._open[-1].tag:
            self._end()
        else:
            self.status = Status.UNEXPECTED  # the end of the call, or of nothing
            return position
        return match.end()

    def _text(self, text: str) -> None:
        """Take text of the open element; between elements there is only white space."""
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
        """Open an element; the one around it is a list or an object then."""
        self._space = ""
        root = self._calls.schema
        if not self._open:
            self._calls.member(f'"{quoted(tag)}"')
            self._open.append(_Element(tag, f"</{tag}>", find_member(root, tag, root)))
            return
        parent = self._open[-1]
        if not parent.closer:
            parent.closer = "]" if tag == ITEM else "}"
            self._calls.arguments("[" if tag == ITEM else "{")
        key = "" if parent.closer == "]" else f'"{quoted(tag)}": '
        self._calls.arguments((", " if parent.members else "") + key)
        parent.members += 1
        self._open.append(_Element(tag, f"</{tag}>", find_member(parent.schema, tag, root)))

    def _end(self) -> None:
        """Close the innermost element."""
        element = self._open.pop()
        if element.closer:
            self._calls.arguments(element.closer)
            return
        if element.value is None:
            empty = _EMPTY.get(self._kinds(element)) if not self._space else None
            if empty is not None:
                self._calls.arguments(empty)
                return
            element.value = self._new_value(element)
            if self._space:
                element.value.feed(self._space)
            self._space = ""
        element.value.finish()

    def _new_value(self, element: _Element) -> SchemaValue:
        return SchemaValue(self._calls.arguments, self._kinds(element) or UNDECLARED["json"], "")

    def _kinds(self, element: _Element) -> frozenset[str]:
        return allowed_types(element.schema, self._calls.schema)
