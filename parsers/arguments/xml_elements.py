"""Arguments as nested XML elements: `<city>Oslo</city><tags><item>a</item></tags>`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from typing_extensions import override

from ...base.limits import MAX_HELD_VALUE, MAX_TAG
from ..schema import ValueSchema
from .incremental_grammar import IncrementalGrammar, Status, partial_length, skip_space
from .json_text import WriteJson, escape_json
from .ledger import Slip
from .tool_calls import ToolCallEmitter
from .type_conversion import text_to_json
from .value_between_tags import UNDECLARED, SchemaValue

# The name of a list's elements.
ITEM = "item"

# The JSON of an element without content, by its declared types.
_EMPTY = {frozenset({"object"}): "{}", frozenset({"array"}): "[]", frozenset({"null"}): "null"}
_TAG = re.compile(r"<(/?)([^<>]+)>")
_START_TAG = re.compile(r"<[^/]")
_PARTIAL_TAG = re.compile(r"<[^<>]*")
_SPACE = " \t\r\n"


class _Repeated:
    """A member that may be repeated, which makes it a list.

    texts: of its elements, held back.
    """

    def __init__(self, write: WriteJson, tag: str, schema: ValueSchema) -> None:
        self._write = write
        self._schema = schema
        self._length = 0  # of `texts`, in characters
        self._has_bracket = False  # the list's bracket and earlier values are written
        self.tag = tag
        self.texts: list[str] = []

    def add(self, text: str) -> None:
        """Hold back one more text, unless too much waits."""
        self.texts.append(text)
        self._length += len(text)
        if self._length > MAX_HELD_VALUE and (self._has_bracket or len(self.texts) > 1):
            self.write()

    def write(self) -> None:
        """Write the texts as values of a list."""
        items = self._schema.member(ITEM)
        for text in self.texts:
            self._write((", " if self._has_bracket else "[") + _to_json(text, items))
            self._has_bracket = True
        self.texts.clear()
        self._length = 0

    def end(self) -> None:
        """Write the member, which is not repeated any more."""
        if not self._has_bracket and len(self.texts) == 1:
            self._write(_to_json(self.texts[0], self._schema))
            return
        self.write()
        self._write("]")


class _Element:
    """An open element, or the object of all parameters, which has no parent.

    end_tag: without the prefix. schema: the declared one. value: reads its text, once that streams.
    repeated: the last member, which may be repeated.
    closer: the bracket that closes it if it is an object or list; "" if unknown, or if it
        contains text.
    """

    def __init__(
        self, calls: ToolCallEmitter, tag: str, schema: ValueSchema, parent: _Element | None = None
    ) -> None:
        self._calls = calls
        self._parent = parent
        self._has_members = False
        self.closer = "" if parent is not None else "}"
        self.repeated: _Repeated | None = None
        may_repeat = not schema.declared or "array" in schema.kinds
        waits = parent is not None and parent.closer == "}" and may_repeat
        # Its text while held back; None if its value streams.
        self._text: list[str] | None = [] if waits else None
        self._length = 0  # of `_text`, in characters
        self.tag = tag
        self.end_tag = f"</{tag}>"
        self.schema = schema
        self.value: SchemaValue | None = None

    @property
    def is_text(self) -> bool:
        """Whether it contains text."""
        return self.value is not None or bool(self._text)

    @property
    def held(self) -> Iterator[str]:
        """The text that is held back, in pieces."""
        yield from self.repeated.texts if self.repeated is not None else ()
        yield from self._text or ()
        yield self.value.held if self.value is not None else ""

    def add_text(self, text: str) -> None:
        """Take text, which is held back while the element may be repeated."""
        if self._text is not None:
            self._text.append(text)
            self._length += len(text)
            if self._length <= MAX_HELD_VALUE:
                return
            text, self._text = "".join(self._text), None
        if self.value is None:
            self._begin_value()
            schema = _find_schema(self.schema)
            self.value = SchemaValue(self._calls.arguments, self._calls.stops_repair, schema, "")
        self.value.feed(text)

    def _begin_value(self) -> None:
        """Write what precedes a value that is not held back."""
        repeated = self._parent.repeated if self._parent is not None else None
        if repeated is not None:
            repeated.write()
            self._calls.arguments(", ")

    def begin_members(self, tag: str, *, is_parameter: bool) -> None:
        """Begin a list or object, since the element contains an element `tag`.

        is_parameter: the call has a parameter of that name.
        """
        self._text = None
        if is_parameter and _is_plain(self.schema):
            self._calls.malformed("swallowed_markup")  # another parameter
        self._begin_value()
        is_list = _is_list(self.schema, tag)
        if not is_list and "object" not in self.schema.kinds:
            self.schema = self.schema.member(ITEM)  # one object, although a list is declared
        self.closer = "]" if is_list else "}"
        self._calls.arguments("[" if is_list else "{")

    def begin_member(self, tag: str) -> _Element:
        """Return a new element in this one, whose key is written."""
        if self.repeated is None or self.repeated.tag != tag:
            self.end_member()
            self._write_key(tag)
        return _Element(self._calls, tag, self.schema.member(tag), self)

    def _write_key(self, tag: str) -> None:
        if self._parent is None:
            self._calls.member(tag)
            return
        key = "" if self.closer == "]" else f'"{escape_json(tag)}": '
        self._calls.arguments((", " if self._has_members else "") + key)
        self._has_members = True

    def end_member(self) -> None:
        """Write the last member if it is held back: it is not repeated."""
        repeated, self.repeated = self.repeated, None
        if repeated is not None:
            repeated.end()

    def end(self, space: str) -> None:
        """Write what is held back. space: the white space at the end of its text."""
        if self.closer:
            self.end_member()
            self._calls.arguments(self.closer)
        elif self._text is not None and self._parent is not None:
            self._parent.repeat(self.tag, self.schema, "".join(self._text) + space)
        elif self.value is None:
            self._calls.arguments(_to_json(space, self.schema))
        else:
            self.value.finish()

    def repeat(self, tag: str, schema: ValueSchema, text: str) -> None:
        """Hold back a member's text until it is known whether the member is repeated."""
        if self.repeated is None:
            self.repeated = _Repeated(self._calls.arguments, tag, schema)
        self.repeated.add(text)


class XmlElements(IncrementalGrammar):
    """Reads the members of a call's arguments: one element each, with its key as the tag.

    An element contains text, typed by the declared schema, or further elements: the members of an
    object, or a list of `item` elements. A repeated member is also a list if it contains text and
    the schema allows a list.

    tag_prefix: precedes every tag, never empty. The end tag of the innermost element is also
        recognized without it, where another tag comes directly after it.

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
        self._unopened = 0  # characters of an end tag without an element
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
        return "".join(text for element in elements for text in element.held) + self._space

    @override
    def take_run(self, text: str) -> bool:
        value = self._open[-1].value if self._open else None
        if value is None or self._tag_prefix[0] in text or "<" in text:
            return False
        value.feed(text)
        return True

    @override
    def take_unexpected(self, char: str) -> None:
        if self._unopened and self._innermost.closer:
            self._calls.ledger.note(Slip.MARK)  # an end tag, doubled
            self._unopened -= 1
            self._state = self._drop
        else:
            self._text(char)

    @override
    def close(self) -> None:
        while self._open:
            self._end()
        self._root.end_member()
        self.status = Status.DONE

    @property
    def _root(self) -> _Element:
        if self._object is None:
            self._object = _Element(self._calls, "", self._calls.schema.root)
        return self._object

    @property
    def _innermost(self) -> _Element:
        return self._open[-1] if self._open else self._root

    def _read(self, text: str, position: int) -> int:
        """Read text up to the next tag, or the tag at `position`."""
        prefix = self._tag_prefix
        marks = (prefix, self._open[-1].end_tag) if self._open else (prefix,)
        starts = [start for mark in marks if (start := text.find(mark, position)) >= 0]
        if not starts:
            lengths = [0 if self._final else partial_length(text, mark, position) for mark in marks]
            self._text(text[position : len(text) - max(lengths)])
            return len(text) - max(lengths)
        if (start := min(starts)) > position:
            self._text(text[position:start])
            return start
        is_tag = text.startswith(prefix, position)
        return self._tag(text, position) if is_tag else self._bare_end(text, position)

    def _bare_end(self, text: str, position: int) -> int:
        """Read the innermost element's end tag without its prefix.

        It is text, unless a tag comes directly after it that is not the element's own end.
        """
        tag_prefix, end = self._tag_prefix, self._open[-1].end_tag
        after = position + len(end)
        tag = skip_space(text, after)
        behind = text[tag : tag + len(tag_prefix + end)]
        may_be_own = (tag_prefix + end).startswith(behind)
        if not self._final and tag - after <= MAX_TAG and may_be_own and behind != tag_prefix + end:
            return position
        if behind.startswith(tag_prefix) and not may_be_own:
            self._end()
        else:
            self._text(text[position:after])
        return after

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
            self._unopened = match.end() - position
            self.status = Status.UNEXPECTED  # the end of the call, or of no open element
            return position
        else:
            self._begin(tag)
        return match.end()

    def _no_tag(self, text: str, position: int) -> int:
        """Read a prefix without a tag, which may be incomplete, or doubled."""
        start = position + len(self._tag_prefix)
        if text.startswith(self._tag_prefix, start):
            self._calls.ledger.note(Slip.MARK)
            return start
        may_be_prefix = self._tag_prefix.startswith(text[start:])
        if self._final or not (may_be_prefix or _may_be_tag(text, start)):
            self.status = Status.UNEXPECTED
        return position

    def _drop(self, text: str, position: int) -> int:
        """Drop an end tag without an element."""
        end = min(len(text), position + self._unopened)
        self._unopened -= end - position
        if not self._unopened:
            self._state = self._read
        return end

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
        element.add_text(text)

    def _begin(self, tag: str) -> None:
        """Open an element, which makes its parent a list or an object."""
        self._space = ""
        parent = self._innermost
        if not parent.closer:
            if parent.tag == tag != ITEM and _is_plain(parent.schema) and not parent.is_text:
                self._calls.ledger.note(Slip.MARK)  # the tag is doubled
                return
            parent.begin_members(tag, is_parameter=self._root.schema.has_property(tag))
        self._open.append(parent.begin_member(tag))

    def _end(self) -> None:
        """Close the innermost element."""
        element, space = self._open.pop(), ""
        if not element.closer:
            space, self._space = self._space, ""
        element.end(space)


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
