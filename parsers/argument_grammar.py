"""The grammar of a call's arguments, derived from a format's spelling and a function's schema.

xgrammar has a grammar for JSON Schema, which JSON values use. Values that are text between markers,
and the keys around them, come from here.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from ..base.json_types import JsonObject
from ..base.limits import MAX_GRAMMAR_BYTES, MAX_GRAMMAR_SPACE
from .format import CALL_STATES, VALUE_STATES, Format, Spelling, State, find_markers
from .schema import FunctionSchema, ValueSchema, json_type

# Text with a placeholder, or a line break with the spaces that indent the next line.
_PIECE = re.compile(r"(\{(?:name|index|key|type|value)\}|\n[ \t]*)")
# Other keys may need escapes or contain markers.
_PLAIN_KEY = re.compile(r"[\w.:/$@-]+(?: [\w.:/$@-]+)*")
_KEY_CHARACTERS = string.ascii_letters + string.digits + "_"
_LONGEST_KEY = 64
# The pattern of the keys that differ after one beginning.
_BRANCH_BYTES = 2 * len(_KEY_CHARACTERS)
# References that a part of a schema cannot take along: to its root, and out of the schema.
_TO_ROOT = re.compile(rb'"\$ref":"#(?!/(?:\$defs|definitions)/)')
_OUTWARD = re.compile(rb'"\$ref":"[^#]')
# A definition of the whole schema.
_ROOT = "-root"
_DIGITS = "[0-9]{2}"
_DATE, _TIME = (
    rf"[0-9]{{4}}-{_DIGITS}-{_DIGITS}",
    rf"{_DIGITS}:{_DIGITS}:{_DIGITS}(\.[0-9]{{1,9}})?",
)
_ZONE = rf"(Z|[+-]{_DIGITS}:{_DIGITS})"
_HEX = "[0-9a-fA-F]"
# The formats of strings that models are often asked for.
STRING_FORMATS = {
    "date": _DATE,
    "time": _TIME + _ZONE,
    "date-time": f"{_DATE}T{_TIME}{_ZONE}",
    "uuid": f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
    "email": r"[\w.+-]+@[\w-]+(\.[\w-]+)+",
    "ipv4": r"[0-9]{1,3}(\.[0-9]{1,3}){3}",
}
# Alternatives and references that are followed; deeper values are not constrained.
MAX_DEPTH = 6
# A string's least length beyond it is not enforced.
MAX_LENGTH = 256
# Templates of some families write these, besides JSON's.
_PYTHON_WORDS = {"boolean": ("True", "False"), "null": ("None",)}
# Shorter markers are signs that values may have.
MIN_MARKUP = 4
_AROUND = (State.TOOL_SECTION, State.PARAMETERS, State.KEY)
_DEFINITIONS = ("$defs", "definitions")


def exactly(text: str) -> JsonObject:
    """Return the grammar of one text."""
    return {"type": "const_string", "value": text}


def matching(pattern: str) -> JsonObject:
    """Return the grammar of the texts that match a regular expression."""
    return {"type": "regex", "pattern": pattern}


def optional(content: JsonObject) -> JsonObject:
    """Return a grammar that also accepts nothing."""
    return {"type": "optional", "content": content}


def in_turn(elements: Iterable[JsonObject]) -> JsonObject:
    """Return the grammar of a sequence. Adjacent texts become one."""
    joined: list[JsonObject] = []
    for element in elements:
        if joined and element["type"] == joined[-1]["type"] == "const_string":
            joined[-1] = exactly(joined[-1]["value"] + element["value"])
        elif element != exactly(""):
            joined.append(element)
    if len(joined) > 1:
        return {"type": "sequence", "elements": joined}
    return joined[0] if joined else exactly("")


def star(content: JsonObject) -> JsonObject:
    """Return the grammar of any number of repetitions."""
    return {"type": "star", "content": content}


def repeat(content: JsonObject, least: int, most: int | None) -> JsonObject:
    """Return the grammar of some repetitions. most: None for no limit."""
    if not least and most is None:
        return star(content)
    return {"type": "repeat", "min": least, "max": -1 if most is None else most, "content": content}


def json_value(schema: object, *, any_order: bool = False) -> JsonObject:
    """Return the grammar of a JSON value. White space is bounded: models can write it for ever."""
    return {
        "type": "json_schema",
        "json_schema": schema,
        "any_order": any_order,
        "max_whitespace_cnt": MAX_GRAMMAR_SPACE,
    }


def either(alternatives: Iterable[JsonObject]) -> JsonObject:
    """Return the grammar of alternatives."""
    elements = list(alternatives)
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": elements}


def fill(written: str, values: Mapping[str, JsonObject] | None = None) -> list[JsonObject]:
    """Return the elements of a text. values: of its placeholders. Line breaks are optional."""
    elements = []
    for piece in split_lines(written):
        if piece.startswith("\n"):
            elements.append(optional(exactly(piece)))
        else:
            elements.append((values or {}).get(piece[1:-1], exactly(piece)))
    return elements


def escape(char: str) -> str:
    """Return a character for an expression, or for a class in one."""
    if char == "\n":
        return r"\n"
    return f"\\{char}" if char in r"\^$.|?*+()[]{}-/" else char


def split_lines(written: str) -> list[str]:
    """Return the placeholders and line breaks of a text, with the texts between them."""
    return [piece for piece in _PIECE.split(written) if piece]


class Inexpressible(ValueError):  # noqa: N818 - says what a name or a key is
    """A name or key that the format would have to escape, or a schema with too many values."""


class _Split(NamedTuple):
    """The values of a schema. texts: the strings. others: a schema for the rest; None for none."""

    texts: list[JsonObject]
    others: JsonObject | None


class GrammarBudget:
    """The bytes left for a grammar: a few references can stand for millions of values."""

    def __init__(self) -> None:
        self._left = MAX_GRAMMAR_BYTES

    def spend(self, size: int) -> None:
        """Count `size` bytes of the grammar. Raises `Inexpressible` beyond the budget."""
        self._left -= size
        if self._left < 0:
            raise Inexpressible(f"its grammar takes more than {MAX_GRAMMAR_BYTES} bytes")


class SchemaGrammar:
    """The common part of the grammars of one schema's values.

    root: the schema. spend: counts bytes of the grammar.
    """

    def __init__(self, root: JsonObject, any_order: bool, spend: Callable[[int], None]) -> None:
        self._spend = spend
        self._any_order = any_order
        self._root = root = _define_root(root)
        self._schema = FunctionSchema(root)
        self._definitions = {word: root[word] for word in _DEFINITIONS if word in root}
        self._definitions_bytes = len(msgspec.json.encode(self._definitions))

    def _write_json(self, schema: JsonObject) -> JsonObject:
        """Return the grammar of a part of the schema, as JSON."""
        text = msgspec.json.encode(schema)
        self._spend(len(text) + self._definitions_bytes)
        outward = _OUTWARD.search(text) is not None
        schema = {} if outward else {**schema, **self._definitions}
        return json_value(schema, any_order=self._any_order)

    def _resolve(self, schema: object) -> JsonObject:
        """Return the schema that a reference leads to; {} for one that accepts anything."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, dict):
                return {}
            if "$ref" not in schema:
                return schema
            target = self._schema.resolve(schema["$ref"])
            rest = {word: value for word, value in schema.items() if word != "$ref"}
            schema = {**target, **rest} if isinstance(target, dict) else rest
        return {}


class ParameterGrammar(SchemaGrammar):
    """The parameters of one function, each between its own tags.

    root: the function's schema. spend: counts bytes of the grammar.
    """

    def __init__(
        self,
        format_: Format,
        spelling: Spelling,
        root: JsonObject,
        any_order: bool,
        spend: Callable[[int], None],
    ) -> None:
        super().__init__(root, any_order, spend)
        self._written = spelling.parameters
        self._exits = _find_exits(format_, self._written)
        # The size of what a member and a value repeat.
        self._member_bytes = sum(map(len, (*self._written.values(), *self._exits)))

    def build(self) -> JsonObject:
        """Return the grammar. Raises `Inexpressible`."""
        return self._build_object(self._root, 0)

    def _build_object(self, schema: object, depth: int) -> JsonObject:
        """Return the grammar of an object's members. depth: of the object in the arguments."""
        schema = self._resolve(schema)
        properties = schema.get("properties") or {}
        branches = list_branches(schema)
        if branches and not properties and depth < MAX_DEPTH:
            return either(self._build_object(branch, depth + 1) for branch in branches)
        required = set(schema.get("required") or ())
        members = [
            (self._build_member(self._spell(key, depth), member, depth), key in required)
            for key, member in properties.items()
        ]
        more = schema.get("additionalProperties", not properties)
        others = self._spell_others(properties, depth)
        rest = None if more is False else self._build_member(others, more, depth)
        return self._combine(members, rest)

    def _combine(
        self, members: list[tuple[JsonObject, bool]], rest: JsonObject | None
    ) -> JsonObject:
        """Return the grammar of an object's members.

        members: the declared ones in their order, each with whether it is required. rest: of any
            other member; None if an object has no others.
        """
        if self._any_order:
            every = [member for member, _ in members] + ([] if rest is None else [rest])
            return star(either(every)) if every else exactly("")
        ordered = [member if needed else optional(member) for member, needed in members]
        return in_turn(ordered + ([] if rest is None else [star(rest)]))

    def _spell(self, key: str, depth: int) -> JsonObject:
        """Return the grammar of a declared key. depth: of its object in the arguments."""
        return exactly(check_key(key))

    def _spell_others(self, keys: Iterable[str], depth: int) -> JsonObject:
        """Return the grammar of keys other than `keys`."""
        return self._differ(keys)

    def _differ(self, keys: Iterable[str], characters: str = "") -> JsonObject:
        """Return the grammar of keys other than `keys`. characters: as for `differ`."""
        # No other key is longer.
        short = {"", *(key for key in keys if len(key) <= _LONGEST_KEY)}
        self._spend(_BRANCH_BYTES * count_beginnings(short))
        return matching(differ(short, characters))

    def _build_member(self, key: JsonObject, schema: object, depth: int) -> JsonObject:
        """Return the grammar of a member. key: of its name."""
        self._spend(self._member_bytes)
        texts, others = self._split(schema)
        members = []
        for state, written in self._written.items():
            typed: dict[str, list[JsonObject]] = {}
            for kind, value in self._write(state, texts, others, depth):
                typed.setdefault(kind if "{type}" in written else "", []).append(value)
            members += [
                in_turn(fill(written, {"key": key, "type": exactly(kind), "value": either(values)}))
                for kind, values in typed.items()
            ]
        return either(members)

    def _write(
        self, state: State, texts: list[JsonObject], others: JsonObject | None, depth: int
    ) -> Iterator[tuple[str, JsonObject]]:
        """Yield the grammars of the values that `state` reads, each with its JSON type."""
        if state is not State.JSON:
            yield from (("string", text) for text in texts)
        if others is None or state is State.STRING:
            return
        for kind in list_kinds(self._schema.compile(others)):
            name = "number" if kind == "integer" else kind
            yield name, self._write_kind(state, others, kind, depth)
            if state is State.VALUE and "enum" not in others:
                yield from ((kind, exactly(word)) for word in _PYTHON_WORDS.get(kind, ()))

    def _write_kind(self, state: State, schema: JsonObject, kind: str, depth: int) -> JsonObject:
        """Return the grammar of the values of one JSON type."""
        if state is State.ELEMENTS and depth < MAX_DEPTH:
            if kind == "object":
                return self._build_object(schema, depth + 1)
            if kind == "array":
                items = self._build_member(exactly("item"), schema.get("items", {}), depth + 1)
                return repeat(items, schema.get("minItems", 0), schema.get("maxItems"))
        if "enum" in schema:
            schema = {"enum": [value for value in schema["enum"] if json_type(value) == kind]}
        if "type" in schema:
            schema = {**schema, "type": kind}
        return self._write_json(schema)

    def _split(self, schema: object, depth: int = 0) -> _Split:
        self._spend(self._member_bytes)
        schema = self._resolve(schema)
        literals = [schema["const"]] if "const" in schema else schema.get("enum")
        if literals:
            return _split_literals(literals)
        branches = list_branches(schema)
        if branches and depth < MAX_DEPTH:
            return _join(self._split(branch, depth + 1) for branch in branches)
        compiled = self._schema.compile(schema)
        if "string" not in compiled.kinds:
            return _Split([], schema)
        kinds = list_kinds(compiled)
        return _Split([self._write_text(schema)], {**schema, "type": kinds} if kinds else None)

    def _write_text(self, schema: JsonObject) -> JsonObject:
        """Return the grammar of strings, which end before any of the exits."""
        pattern = schema.get("pattern") or STRING_FORMATS.get(str(schema.get("format")))
        if pattern:
            return matching(pattern)
        least = min(schema.get("minLength", 0), MAX_LENGTH)
        most = schema.get("maxLength")
        text: JsonObject = {"type": "any_text", "excludes": self._exits}
        if isinstance(most, int):
            text["max_chars"] = max(most - least, 0)
        if not least:
            return text
        firsts = {"\n", *(exit_[0] for exit_ in self._exits)}
        apart = "".join(map(escape, sorted(firsts)))
        return in_turn([matching(f"[^{apart}]{{{least}}}"), text])


def _define_root(schema: JsonObject) -> JsonObject:
    """Return a schema whose references lead to definitions, the first of which is itself."""
    text = msgspec.json.encode(schema)
    moved = _TO_ROOT.sub(f'"$ref":"#/$defs/{_ROOT}'.encode(), text)
    if moved == text:
        return schema
    root: JsonObject = msgspec.json.decode(moved)
    body = {word: value for word, value in root.items() if word not in _DEFINITIONS}
    return {**root, "$defs": {_ROOT: body, **root.get("$defs", {})}}


def _find_exits(format_: Format, written: Mapping[State, str]) -> list[str]:
    """Return the texts that strings must not have, because a parser reads them as markup."""
    if State.ELEMENTS in written:
        return [format_.tag_prefix]
    states = format_.states
    ends = {marker for state in written for marker in states.get(state, {}) if marker}
    around = find_markers(states, (State.CONTENT,), CALL_STATES)
    around |= {marker for state in _AROUND for marker in states.get(state, {})}
    # Shorter ones, and words, are also in other text.
    ends |= {marker for marker in around if len(marker) >= MIN_MARKUP and marker[0] in "<["}
    return sorted(ends | _list_rests(find_markers(states, (State.KEY,), VALUE_STATES)))


def _list_rests(markers: Iterable[str]) -> set[str]:
    """Return the texts that make one marker of another: a value must not begin with them.

    White space does not count: line breaks are optional.
    """
    return {
        more[len(less) :]
        for more, less in itertools.product(markers, repeat=2)
        if more.startswith(less) and more[len(less) :].strip()
    }


def _split_literals(literals: Iterable[object]) -> _Split:
    texts = [exactly(text) for text in literals if isinstance(text, str)]
    others = [literal for literal in literals if not isinstance(literal, str)]
    return _Split(texts, {"enum": others} if others else None)


def _join(parts: Iterable[_Split]) -> _Split:
    texts, others = [], []
    for part in parts:
        texts += part.texts
        others += [] if part.others is None else [part.others]
    return _Split(texts, {"anyOf": others} if others else None)


def check_key(key: str) -> str:
    """Return a key that needs no escapes. Raises `Inexpressible` for another."""
    if _PLAIN_KEY.fullmatch(key) is None:
        raise Inexpressible(key)
    return key


def count_beginnings(keys: Iterable[str]) -> int:
    """Count the different beginnings of all keys."""
    ordered = sorted(keys)
    return sum(map(len, ordered)) - sum(itertools.starmap(_count_same, itertools.pairwise(ordered)))


def _count_same(first: str, second: str) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (char, other) in pairs if char != other), len(first))


def differ(keys: set[str], characters: str = "") -> str:
    """Return a pattern for keys other than `keys`; {""} of them is also one.

    characters: those that can be the first; none for any of a key.
    """
    following: dict[str, set[str]] = {}
    for key in keys - {""}:
        following.setdefault(key[0], set()).add(key[1:])
    firsts = characters or _KEY_CHARACTERS
    free = "".join(char for char in firsts if char not in following)
    found = [f"[{free}][{_KEY_CHARACTERS}]{{0,{_LONGEST_KEY - 1}}}"] if free else []
    found += [char + differ(rest) for char, rest in following.items() if char in _KEY_CHARACTERS]
    return f"(?:{'|'.join(found)})" + ("" if "" in keys else "?")


def list_branches(schema: JsonObject) -> list[object]:
    """Return the alternatives of a schema."""
    return next((schema[word] for word in ("anyOf", "oneOf") if schema.get(word)), [])


def list_kinds(schema: ValueSchema) -> list[str]:
    """Return the types of a schema's values other than strings."""
    whole = {"integer"} if "number" in schema.kinds else set()
    return sorted(schema.kinds - {"string"} - whole)
