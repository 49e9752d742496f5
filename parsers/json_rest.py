"""The grammar of the rest of a JSON value whose beginning is written.

An engine's grammar begins with the first token that it generates. If another worker goes on with an
answer, or a call is generated again from its middle, the beginning is part of the prompt. What may
follow it is decided by the open containers and the schema: the rest of a string or a number, the
members and items that may still come, and the closing brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from ..base.json_types import JsonObject, decode_json
from ..base.limits import (
    MAX_GRAMMAR_SPACE,
    MAX_REST_CHARACTERS,
    MAX_REST_MEMBERS,
    MAX_REST_PARTS,
)
from .argument_grammar import (
    MAX_DEPTH,
    MAX_LENGTH,
    GrammarBudget,
    Inexpressible,
    SchemaGrammar,
    differ,
    either,
    exactly,
    in_turn,
    list_branches,
    matching,
    optional,
    repeat,
    star,
)
from .partial_json import Due, Open, PartialJson, read_partial
from .schema_validation import accepts

_SPACE = rf"[ \n\r\t]{{0,{MAX_GRAMMAR_SPACE}}}"
_HEX = "[0-9a-fA-F]"
_ESCAPED = rf'(?:["\\/bfnrt]|u{_HEX}{{4}})'
_CHARACTER = rf'(?:[^"\\\x00-\x1f]|\\{_ESCAPED})'
_OPEN_ESCAPE = re.compile(r"(?:[^\\]|\\(?:[^u]|u.{4}))*(\\(?:u.{0,3})?)?", re.DOTALL)
_EXPONENT = "(?:[eE][+-]?[0-9]+)?"
_FRACTION = r"(?:\.[0-9]+)?"
# The beginnings of numbers, each with the pattern of its rests.
_NUMBER_RESTS = (
    (r"-", f"(?:0|[1-9][0-9]*){_FRACTION}{_EXPONENT}"),
    (r"-?0", _FRACTION + _EXPONENT),
    (r"-?[1-9]\d*", f"[0-9]*{_FRACTION}{_EXPONENT}"),
    (r"-?\d+\.", f"[0-9]+{_EXPONENT}"),
    (r"-?\d+\.\d+", f"[0-9]*{_EXPONENT}"),
    (r"-?\d+(?:\.\d+)?[eE]", "[+-]?[0-9]+"),
    (r"-?\d+(?:\.\d+)?[eE][+-]", "[0-9]+"),
    (r"-?\d+(?:\.\d+)?[eE][+-]?\d+", "[0-9]*"),
)
_INTEGER_RESTS = (("-", "(?:0|[1-9][0-9]*)"), ("-?0", ""), (r"-?[1-9]\d*", "[0-9]*"))
_NUMBER_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_WORDS = {"true": "boolean", "false": "boolean", "null": "null"}
_COMBINING = ("anyOf", "oneOf")


def build_rest(text: str, schema: JsonObject) -> JsonObject | None:
    """Return the grammar of all that makes a value of `schema` of its beginning `text`.

    None if no such value begins so, or the grammar cannot express the rest.
    """
    if len(text) > MAX_REST_CHARACTERS:
        return None
    partial = read_partial(text)
    if partial is None:
        return None
    try:
        return _Rest(text, schema, partial).build()
    except Inexpressible:
        return None


class _Rest(SchemaGrammar):
    """Builds the grammar of the text that may follow a beginning."""

    def __init__(self, text: str, schema: JsonObject, partial: PartialJson) -> None:
        self._text = text
        self._parts = MAX_REST_PARTS
        self._partial = partial
        super().__init__(schema, any_order=False, spend=GrammarBudget().spend)

    def build(self) -> JsonObject:
        """Return the grammar. Raises `Inexpressible`."""
        containers, due, _ = self._partial
        if not containers and due is Due.AFTER:
            return exactly("")
        return self._value(0, self._root)

    def _value(self, depth: int, schema: object) -> JsonObject:
        """Return the rest of the value that is open at `depth`, and of all in it."""
        found = []
        for alternative in self._list_alternatives(schema, 0):
            with suppress(Inexpressible):
                found.append(self._alternative(depth, alternative))
        if not found:
            raise Inexpressible("no value of the schema begins so")
        return either(found)

    def _list_alternatives(self, schema: object, depth: int) -> Iterator[JsonObject]:
        resolved = self._resolve(schema)
        branches = list_branches(resolved)
        if not branches or depth >= MAX_DEPTH:
            yield resolved
            return
        outer = {word: value for word, value in resolved.items() if word not in _COMBINING}
        for branch in branches:
            for inner in self._list_alternatives(branch, depth + 1):
                yield _merge(outer, inner)

    def _alternative(self, depth: int, schema: JsonObject) -> JsonObject:
        """Return the rest by a schema without alternatives."""
        self._spend(MAX_GRAMMAR_SPACE)
        self._parts -= 1
        if "allOf" in schema or self._parts < 0:
            raise Inexpressible("allOf, or too many alternatives")
        containers, _, tail = self._partial
        if depth == len(containers):
            return self._scalar(schema, tail) if tail else self._write_json(schema)
        container = containers[depth]
        kinds = self._schema.compile(schema).kinds
        if ("object" if container.is_object else "array") not in kinds or "enum" in schema:
            raise Inexpressible("another type")
        self._check(container, schema)
        if container.is_object:
            return in_turn([self._object(depth, container, schema), _mark("}")])
        return in_turn([self._array(depth, container, schema), _mark("]")])

    def _check(self, container: Open, schema: JsonObject) -> None:
        """Raise `Inexpressible` if the schema does not accept what is complete."""
        for at, (start, end) in enumerate(zip(container.starts, container.ends, strict=False)):
            self._spend(end - start)
            part = self._find_part(container, at, schema)
            value = decode_json(self._text[start:end])
            if part is False or not accepts(self._schema.compile(part), value):
                raise Inexpressible("a value that the schema does not accept")

    def _find_part(self, container: Open, at: int, schema: JsonObject) -> object:
        """Return the schema of a container's value; False: there can be no such value."""
        if container.is_object:
            others = self._others(schema)
            return (schema.get("properties") or {}).get(container.keys[at], others)
        firsts, most = schema.get("prefixItems") or [], schema.get("maxItems")
        if most is not None and at >= most:
            return False
        return firsts[at] if at < len(firsts) else schema.get("items", not firsts)

    # Objects.

    def _object(self, depth: int, container: Open, schema: JsonObject) -> JsonObject:
        containers, due, tail = self._partial
        if depth < len(containers) - 1 or due in (Due.COLON, Due.VALUE):
            value = self._member_value(depth, container, schema)
            return in_turn([value, *self._members(schema, container.keys)])
        if due is Due.AFTER:
            return in_turn(self._members(schema, container.keys))
        if tail:
            return self._key(container.keys, tail, schema)
        return self._first_members(schema, container.keys, may_end=due is Due.FIRST_KEY)

    def _member_value(self, depth: int, container: Open, schema: JsonObject) -> JsonObject:
        """Return the rest of the member whose key is written."""
        at = len(container.keys) - 1
        value = self._find_part(container, at, schema)
        if value is False:
            raise Inexpressible("a key that the schema does not declare")
        last = depth == len(self._partial.containers) - 1
        if last and self._partial.due is Due.COLON:
            return in_turn([_mark(":"), matching(_SPACE), self._write(value)])
        rest = self._value(depth + 1, value)
        return in_turn([matching(_SPACE), rest]) if last and not self._partial.tail else rest

    def _key(self, seen: Sequence[str], tail: str, schema: JsonObject) -> JsonObject:
        """Return the rest of an object whose last key is not complete."""
        found = [*self._declared_keys(seen, tail, schema), *self._other_keys(seen, tail, schema)]
        if not found:
            raise Inexpressible("no key begins so")
        return either(found)

    def _declared_keys(
        self, seen: Sequence[str], tail: str, schema: JsonObject
    ) -> Iterator[JsonObject]:
        for key, value in (schema.get("properties") or {}).items():
            for written in () if key in seen else _spell(key):
                if written.startswith(tail):
                    member = self._write_member(exactly(written[len(tail) :]), value)
                    yield in_turn([member, *self._members(schema, [*seen, key])])

    def _other_keys(
        self, seen: Sequence[str], tail: str, schema: JsonObject
    ) -> Iterator[JsonObject]:
        others = self._others(schema)
        if others is False or _PLAIN_KEY.fullmatch(tail) is None:
            return
        known = [key for key in schema.get("properties") or {} if _spell(key)[0].startswith(tail)]
        left = {key[len(tail) - 1 :] for key in known} - {""}
        key = matching(differ(left if known else set()) + '"')
        yield in_turn([self._write_member(key, others), *self._members(schema, seen)])

    def _others(self, schema: JsonObject) -> object:
        """Return the schema of members that are not declared; False for none."""
        return schema.get("additionalProperties", not schema.get("properties"))

    def _list_members(
        self, schema: JsonObject, seen: Sequence[str]
    ) -> list[tuple[JsonObject, bool]]:
        """Return the declared members that may still come, each with whether it must."""
        required = set(schema.get("required") or ())
        declared = (schema.get("properties") or {}).items()
        return [
            (self._write_member(exactly(_spell(key)[0]), value), key in required)
            for key, value in declared
            if key not in seen
        ]

    def _write_member(self, key: JsonObject, value: object) -> JsonObject:
        return in_turn([key, _mark(":"), matching(_SPACE), self._write(value)])

    def _list_others(self, schema: JsonObject) -> list[JsonObject]:
        """Return the grammar of a member that is not declared, if there may be one."""
        others = self._others(schema)
        if others is False:
            return []
        known = {"", *(schema.get("properties") or {})}
        return [self._write_member(matching(f'"{differ(known)}"'), others)]

    def _members(self, schema: JsonObject, seen: Sequence[str]) -> list[JsonObject]:
        """Return the grammars of the members that follow others."""
        found = [
            _follow(member) if needed else optional(_follow(member))
            for member, needed in self._list_members(schema, seen)
        ]
        return [*found, *(star(_follow(other)) for other in self._list_others(schema))]

    def _first_members(
        self, schema: JsonObject, seen: Sequence[str], *, may_end: bool
    ) -> JsonObject:
        """Return the grammar of the members after a brace, or after a comma."""
        members = self._list_members(schema, seen)
        if len(members) > MAX_REST_MEMBERS:
            raise Inexpressible(f"more than {MAX_REST_MEMBERS} members may be the next one")
        later, others = self._members(schema, seen), self._list_others(schema)
        found = []
        for at, (member, needed) in enumerate(members):
            self._spend(sum(len(msgspec.json.encode(each)) for each in later[at:]))
            found.append(in_turn([matching(_SPACE), member, *later[at + 1 :]]))
            if needed:
                break
        else:
            more = later[len(members) :]
            found += [in_turn([matching(_SPACE), other, *more]) for other in others]
            found += [exactly("")] if may_end else []
        if not found:
            raise Inexpressible("no member may follow")
        return either(found)

    # Arrays.

    def _array(self, depth: int, container: Open, schema: JsonObject) -> JsonObject:
        containers, due, _ = self._partial
        done, last = len(container.starts), depth == len(containers) - 1
        if last and due is Due.AFTER:
            return self._items(schema, done)
        if not last or self._partial.tail:
            rest = self._value(depth + 1, self._item(container, done - 1, schema))
            return in_turn([rest, self._items(schema, done)])
        first = in_turn([matching(_SPACE), self._write(self._item(container, done, schema))])
        rest = in_turn([first, self._items(schema, done + 1)])
        may_end = due is Due.FIRST_ITEM and not schema.get("minItems")
        return optional(rest) if may_end else rest

    def _item(self, container: Open, at: int, schema: JsonObject) -> object:
        part = self._find_part(container, at, schema)
        if part is False:
            raise Inexpressible("more items than the schema allows")
        return part

    def _items(self, schema: JsonObject, done: int) -> JsonObject:
        """Return the grammar of the items after the first `done`."""
        firsts = (schema.get("prefixItems") or [])[done:]
        found = [_follow(self._write(item)) for item in firsts]
        done += len(firsts)
        least, most = schema.get("minItems", 0) - done, schema.get("maxItems")
        items = schema.get("items", not schema.get("prefixItems"))
        if items is not False and (most is None or most > done):
            more = None if most is None else most - done
            found.append(repeat(_follow(self._write(items)), max(0, least), more))
        return in_turn(found)

    # Values.

    def _write(self, schema: object) -> JsonObject:
        """Return the grammar of a whole value."""
        return self._write_json(schema if isinstance(schema, dict) else {})

    def _scalar(self, schema: JsonObject, tail: str) -> JsonObject:
        literals = [schema["const"]] if "const" in schema else schema.get("enum")
        if literals:
            written = dict.fromkeys(text for literal in literals for text in _spell(literal))
            return _finish(tail, written)
        kinds = self._schema.compile(schema).kinds
        if tail[0] == '"':
            if "string" not in kinds:
                raise Inexpressible("a string")
            return _rest_of_string(schema, tail)
        if tail[0].isalpha():
            return _finish(tail, [word for word, kind in _WORDS.items() if kind in kinds])
        return self._rest_of_number(schema, tail, kinds)

    def _rest_of_number(self, schema: JsonObject, tail: str, kinds: frozenset[str]) -> JsonObject:
        if any(word in schema for word in _NUMBER_LIMITS):
            # Which digits may follow is not a question of syntax.
            with suppress(ValueError):
                if accepts(self._schema.compile(schema), decode_json(tail)):
                    return exactly("")
            raise Inexpressible("a number with limits")
        rests = _NUMBER_RESTS if "number" in kinds else _INTEGER_RESTS
        for beginning, rest in rests if {"number", "integer"} & kinds else ():
            if re.fullmatch(beginning, tail):
                return matching(rest) if rest else exactly("")
        raise Inexpressible("no number begins so")


_PLAIN_KEY = re.compile(r'"\w*')


def _merge(outer: JsonObject, inner: JsonObject) -> JsonObject:
    """Return a schema with the words of one around alternatives, and of an alternative."""
    merged = {**outer, **inner}
    if "properties" in outer and "properties" in inner:
        merged["properties"] = {**outer["properties"], **inner["properties"]}
    if "required" in outer and "required" in inner:
        merged["required"] = [*outer["required"], *inner["required"]]
    return merged


def _finish(tail: str, texts: Iterable[str]) -> JsonObject:
    """Return the grammar of the rests of those texts that begin with `tail`."""
    found = [exactly(text[len(tail) :]) for text in texts if text.startswith(tail)]
    if not found:
        raise Inexpressible("no value begins so")
    return either(found)


def _rest_of_string(schema: JsonObject, tail: str) -> JsonObject:
    """Return the grammar of the rest of a string. tail: from its quote on."""
    if "pattern" in schema or "format" in schema:
        raise Inexpressible("a string with a pattern")
    found = _OPEN_ESCAPE.fullmatch(tail)
    opened = (found.group(1) if found else None) or ""
    written = len(json.loads(tail[: len(tail) - len(opened)] + '"')) + bool(opened)
    least = min(schema.get("minLength", 0), MAX_LENGTH) - written
    most = schema.get("maxLength")
    more = ""
    if isinstance(most, int) and most - written <= MAX_LENGTH:
        if most < written:
            raise Inexpressible("a string that is too long")
        more = str(most - written)
    escape = ""
    if opened:
        escape = _ESCAPED if len(opened) == 1 else f"{_HEX}{{{6 - len(opened)}}}"
    return matching(f'{escape}{_CHARACTER}{{{max(0, least)},{more}}}"')


def _spell(value: object) -> list[str]:
    """Return the ways to write a value as JSON, without white space; the first has no escapes."""
    ways = (json.dumps(value, ensure_ascii=False), json.dumps(value))
    return list(dict.fromkeys(ways))


def _mark(mark: str) -> JsonObject:
    """Return the grammar of a mark with white space before it."""
    return in_turn([matching(_SPACE), exactly(mark)])


def _follow(value: JsonObject) -> JsonObject:
    return in_turn([_mark(","), matching(_SPACE), value])
