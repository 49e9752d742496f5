"""Arguments as nested XML elements: `<city>Oslo</city><tags><item>a</item></tags>`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from typing_extensions import override

from ...base.limits import MAX_HELD_VALUE, MAX_TAG
from ..schema import ValueSchema
from .incremental_grammar import IncrementalGrammar, Status, partial_length
from .json_text import escape_json
from .schema_value import UNDECLARED, SchemaValue
from .text_value import text_to_json
from .tool_calls import ToolCallEmitter

# The name of a list's elements.
ITEM = "item"

# The JSON of an element without content, by its declared types.
_EMPTY = {frozenset({"object"}): "{}", frozenset({"array"}): "[]", frozenset({"null"}): "null"}
_TAG = re.compile(r"<(/?)([^<>]+)>")
_START_TAG = re.compile(r"<[^/]")
_PARTIAL_TAG = re.compile(r"<[^<>]*")
_SPACE = " \t\r\n"


@dataclass
class _Element:
    """An open element, or the object of all parameters.

    schema: the declared one.
    closer: the bracket that closes it if it is an object or list; "" if unknown, or if it
        contains text.
    text: its text while held back; None if its value streams.
    repeated: the last member, which may be repeated.
    """

    tag: str
    schema: ValueSchema
    value: SchemaValue | None = None
    closer: str = ""
    members: int = 0
    text: list[str] | None = None
    repeated: _Repeated | None = None

    @property
    def is_text(self) -> bool:
        """Whether it contains text."""
        return self.value is not None or bool(self.text)


@dataclass
class _Repeated:
    """A member that may be repeated, which makes it a list.

    texts: of its elements, held back. length: of these, in characters.
    opened: whether the list's bracket and earlier values are written.
    """

    tag: str
    schema: ValueSchema
    texts: list[str] = field(default_factory=list)
    length: int = 0
    opened: bool = False


class XmlElements(IncrementalGrammar):
    """Reads the members of a call's arguments: one element each, with its key as the tag.

    An element contains text, typed by the declared schema, or further elements: the members of an
    object, or a list of `item` elements. A repeated member is also a list if it contains text and
    the schema allows a list.

    tag_prefix: precedes every tag, never empty.

    Holds back a tag of at most `MAX_TAG` characters after its prefix, as much white space, what
    `SchemaValue` holds back, and the text of members that may repeat: at most `MAX_HELD_VALUE` and
    another element of that length.
    """

    def __init__(self, calls: ToolCallEmitter, tag_prefix: str) -> None:
        self._calls = calls
        self._tag_prefix = tag_prefix
        # All parameters; created at the first tag, because the call starts only then.
        self._object: _Element | None = None
        self._open: list[_Element] = []
        self._space = ""
        self._waiting = 0  # characters of the innermost element's `text`
        self._state = self._read

    @property
    @override
    def in_string(self) -> bool:
        return False  # tags are recognized everywhere

    @property
    @override
    def in_argument(self) -> bool:
        return bool(self._open)

    @property
    @override
    def held(self) -> str:
        elements = [*filter(None, [self._object]), *self._open]
        texts: list[str] = []
        for element in elements:
            texts += element.repeated.texts if element.repeated is not None else []
            texts += element.text or []
            texts.append(element.value.held if element.value is not None else "")
        return "".join(texts) + self._space

    @override
    def take_run(self, text: str) -> bool:
        value = self._open[-1].value if self._open else None
        if value is None or self._tag_prefix[0] in text:
            return False
        value.feed(text)
        return True

    @override
    def take_unexpected(self, char: str) -> None:
        self._text(char)

    @override
    def close(self) -> None:
        if self._open:
            self._calls.malformed("swallowed_markup")  # the end of an element is missing
        while self._open:
            self._end()
        self._flush(self._root)
        self.status = Status.DONE

    @property
    def _root(self) -> _Element:
        if self._object is None:
            self._object = _Element("", self._calls.schema.root, closer="}")
        return self._object

    @property
    def _innermost(self) -> _Element:
        return self._open[-1] if self._open else self._root

    def _read(self, text: str, position: int) -> int:
        """Read text up to the next tag, or the tag at `position`."""
        prefix = self._tag_prefix
        start = text.find(prefix, position)
        if start == position:
            return self._tag(text, position)
        if start < 0:
            start = len(text) - (0 if self._final else partial_length(text, prefix, position))
        self._text(text[position:start])
        return start

    def _tag(self, text: str, position: int) -> int:
        """Read the tag whose prefix is at `position`."""
        start = position + len(self._tag_prefix)
        match, innermost = _TAG.match(text, start), self._innermost
        if innermost.is_text and _START_TAG.match(text, start) is not None:
            self._text(text[position:start])  # only an end tag is one inside text
            return start
        if match is None:
            return self._no_tag(text, position)
        slash, tag = match.groups()
        if slash and self._open and tag == innermost.tag:
            self._end()
        elif slash and innermost.schema.has_property(slash + tag) and not innermost.is_text:
            self._begin(slash + tag)
        elif slash or tag == "/":
            self.status = Status.UNEXPECTED  # the end of the call, or of no open element
            return position
        else:
            self._begin(tag)
        return match.end()

    def _no_tag(self, text: str, position: int) -> int:
        """Read a prefix without a tag, which may be incomplete."""
        if self._final or not _may_be_tag(text, position + len(self._tag_prefix)):
            self.status = Status.UNEXPECTED
        return position

    def _text(self, text: str) -> None:
        """Take text of the innermost element; between elements it leaves the call open."""
        element = self._innermost
        if not text:
            return
        if element.closer:
            if not self._final:  # else it is half a tag
                self._calls.stray(text)
            return
        if not element.is_text:
            self._space += text
            if len(self._space) <= MAX_TAG and not self._space.strip(_SPACE):
                return  # another element may follow
            text, self._space = self._space, ""
        self._add_text(element, text)

    def _add_text(self, element: _Element, text: str) -> None:
        if element.text is not None:
            element.text.append(text)
            self._waiting += len(text)
            if self._waiting <= MAX_HELD_VALUE:
                return
            text, element.text = "".join(element.text), None
            element.value = self._new_value(element)
        elif element.value is None:
            element.value = self._new_value(element)
        element.value.feed(text)

    def _begin(self, tag: str) -> None:
        """Open an element, which makes its parent a list or an object."""
        self._space = ""
        parent = self._innermost
        if not parent.closer:
            self._begin_members(parent, tag)
        schema = parent.schema.member(tag)
        repeated = parent.repeated
        if repeated is None or repeated.tag != tag:
            self._flush(parent)
            self._write_key(parent, tag)
        waits = parent.closer == "}" and (not schema.declared or "array" in schema.kinds)
        self._open.append(_Element(tag, schema, text=[] if waits else None))
        self._waiting = 0

    def _begin_members(self, element: _Element, tag: str) -> None:
        """Begin `element` as a list or object, since it contains an element `tag`."""
        element.text = None
        if _is_plain(element.schema) and self._root.schema.has_property(tag):
            self._calls.malformed("swallowed_markup")  # another parameter
        self._begin_value(element)
        is_list = _is_list(element.schema, tag)
        if not is_list and "object" not in element.schema.kinds:
            element.schema = element.schema.member(ITEM)  # one object, although a list is declared
        element.closer = "]" if is_list else "}"
        self._calls.arguments("[" if is_list else "{")

    def _begin_value(self, element: _Element) -> None:
        """Write the beginning of a value that is not held back."""
        parent = self._open[-2] if len(self._open) > 1 else self._root
        if parent.repeated is not None:
            self._write_repeated(parent.repeated)
            self._calls.arguments(", ")

    def _write_key(self, parent: _Element, tag: str) -> None:
        if parent is self._root:
            self._calls.member(tag)
            return
        key = "" if parent.closer == "]" else f'"{escape_json(tag)}": '
        self._calls.arguments((", " if parent.members else "") + key)
        parent.members += 1

    def _end(self) -> None:
        """Close the innermost element and write its held-back text."""
        element = self._open.pop()
        if element.closer:
            self._flush(element)
            self._calls.arguments(element.closer)
            return
        space, self._space = self._space, ""
        if element.text is not None:
            self._repeat(element, "".join(element.text) + space)
        elif element.value is None:
            self._calls.arguments(_to_json(space, element.schema))
        else:
            element.value.finish()

    def _repeat(self, element: _Element, text: str) -> None:
        """Hold back a member's text until it is known whether the member is repeated."""
        parent = self._innermost
        if parent.repeated is None:
            parent.repeated = _Repeated(element.tag, element.schema)
        repeated = parent.repeated
        repeated.texts.append(text)
        repeated.length += len(text)
        if repeated.length > MAX_HELD_VALUE and (repeated.opened or len(repeated.texts) > 1):
            self._write_repeated(repeated)

    def _flush(self, element: _Element) -> None:
        """Write the last member of an object: it is not repeated."""
        repeated, element.repeated = element.repeated, None
        if repeated is None:
            return
        if not repeated.opened and len(repeated.texts) == 1:
            self._calls.arguments(_to_json(repeated.texts[0], repeated.schema))
            return
        self._write_repeated(repeated)
        self._calls.arguments("]")

    def _write_repeated(self, repeated: _Repeated) -> None:
        """Write the texts of a repeated member as values of a list."""
        items = repeated.schema.member(ITEM)
        for text in repeated.texts:
            self._calls.arguments((", " if repeated.opened else "[") + _to_json(text, items))
            repeated.opened = True
        repeated.texts.clear()
        repeated.length = 0

    def _new_value(self, element: _Element) -> SchemaValue:
        self._begin_value(element)
        return SchemaValue(
            self._calls.arguments, self._calls.stops_repair, _find_schema(element.schema), ""
        )


def _find_schema(schema: ValueSchema) -> ValueSchema:
    return schema if schema.declared else UNDECLARED["json"]


def _to_json(text: str, schema: ValueSchema) -> str:
    """Return the JSON of a whole element's text."""
    empty = _EMPTY.get(schema.kinds) if not text else None
    return empty or text_to_json(text, _find_schema(schema))


def _is_plain(schema: ValueSchema) -> bool:
    """Whether a value is declared that contains no other."""
    return schema.declared and schema.kinds.isdisjoint({"array", "object"})


def _is_list(schema: ValueSchema, tag: str) -> bool:
    """Whether an element that contains an element `tag` is a list rather than an object."""
    if schema.declared and ("array" in schema.kinds) != ("object" in schema.kinds):
        return "array" in schema.kinds and (
            tag == ITEM or not schema.member(ITEM).has_property(tag)
        )
    return tag == ITEM and not schema.has_property(tag)


def _may_be_tag(text: str, start: int) -> bool:
    """Whether `text` ends before the end of a tag that begins at `start`."""
    may_follow = start == len(text) or _PARTIAL_TAG.fullmatch(text, start) is not None
    return may_follow and len(text) - start <= MAX_TAG
