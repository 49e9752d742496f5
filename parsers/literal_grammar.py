"""The grammar of arguments that are literals: Python's, or objects with marks around strings.

xgrammar has no grammar for their objects, lists and strings, so these are composed here from the
schema. A schema that refers to itself is followed `MAX_NESTED` times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import accumulate

import msgspec
from typing_extensions import override

from ..base.json_types import JsonObject
from ..base.limits import MAX_SCHEMA_DEPTH
from .argument_grammar import (
    MAX_DEPTH,
    MAX_LENGTH,
    STRING_FORMATS,
    Inexpressible,
    ParameterGrammar,
    check_key,
    either,
    escape,
    exactly,
    fill,
    in_turn,
    list_branches,
    list_kinds,
    matching,
    optional,
    repeat,
    star,
)
from .format import Format, Literals, Spelling, State

# References to one schema that are followed inside each other.
MAX_NESTED = 3
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_WORD = re.compile(r"[^\W\d]\w*")
_HEX = "[0-9a-fA-F]"
# No surrogates: two of them are one character in JSON, and two in Python.
_ESCAPE = rf"\\(?:[\\'\"nrt]|x{_HEX}{{2}}|u(?:[0-9a-cefA-CEF]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}}))"
# Bytes of a value's grammar, at least, and of what is around the parts of a grammar.
_VALUE_BYTES, _AROUND_BYTES = 64, 32
# No value fits.
_NEVER = either(())
# Values that have two spellings.
_WORDS = {"true": ("true", "True"), "false": ("false", "False"), "null": ("null", "None")}
_KINDS = {"boolean": ("true", "false"), "null": ("null",)}
_NUMBER_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
# A pattern that matches neither quotes, backslashes nor marks.
_CLASS = r"\[(?!\^)-?(?:\d-\d|[a-z]-[a-z]|[A-Z]-[A-Z]|[\w ,:@/.+*?()]|\\[dw.+*?()/-])*-?\]"
_PLAIN_PATTERN = re.compile(rf"(?:{_CLASS}|[\w ,:@/^$(){{}}|?*+-]|\\[dw.+*?()/-])*")
# An EBNF grammar after its root, strings, members and the text between.
_ANY_VALUE = r"""
value ::= string | number | word | array | object
array ::= "[" (value (between value)*)? "]"
object ::= "{" (member (between member)*)? "}"
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,15})? ([eE] [+-]? [0-9]{1,2})?
word ::= "true" | "false" | "null" | "True" | "False" | "None"
"""
_PYTHON_STRINGS = r"""
member ::= string ": " value
string ::= "'" ([^'\\\r\n] | escape)* "'" | "\"" ([^"\\\r\n] | escape)* "\""
escape ::= "\\" ['"\\nrt]
"""


class _TooDeep(Inexpressible):
    """A value that its schema requires contains itself too often."""


class _Sizes:
    """The sizes of grammars as JSON. A part that stands in many places is measured once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        # Others would get the ids of parts that are gone.
        self._kept: list[JsonObject] = []

    def measure(self, grammar: JsonObject) -> int:
        """Return about the size of a grammar in bytes."""
        known, waiting = self._known, [grammar]
        while waiting:
            part = waiting.pop()
            if id(part) in known:
                continue
            inner = (part["content"],) if "content" in part else part.get("elements", ())
            new = [each for each in inner if id(each) not in known]
            if new:
                waiting += [part, *new]
                continue
            self._kept.append(part)
            if inner:
                known[id(part)] = _AROUND_BYTES + sum(known[id(each)] for each in inner)
            else:
                known[id(part)] = len(msgspec.json.encode(part))
        return known[id(grammar)]


class _Chain:
    """The members of an object in their order, of which the first has nothing in front of it.

    Whichever member is the first, all later ones follow in their other form. Halves of the members
    share these, so a member is written some log(n) times; a tag cannot name a part to use it again.

    forms: each as the first, and later. firsts: the number of those that can be the first.
    size: of the grammar, which is not made for it.
    """

    def __init__(
        self, forms: list[tuple[JsonObject, JsonObject]], firsts: int, sizes: _Sizes
    ) -> None:
        self._forms = forms
        self._firsts = firsts
        later = [0, *accumulate(sizes.measure(later) for _, later in forms)]
        self.size = later[-1] - later[firsts]
        self.size += sum(sizes.measure(first) for first, _ in forms[:firsts])
        waiting = [(0, firsts)]
        while waiting:
            begin, end = waiting.pop()
            if end - begin > 1:
                middle = (begin + end) // 2
                self.size += later[end] - later[middle]
                waiting += [(begin, middle), (middle, end)]

    def build(self) -> JsonObject:
        """Return the grammar."""
        return in_turn([self._begin(0, self._firsts), *self._follow(self._firsts, None)])

    def _begin(self, begin: int, end: int) -> JsonObject:
        """Return the grammar of some members, of which one is the first."""
        if end - begin == 1:
            return self._forms[begin][0]
        middle = (begin + end) // 2
        early = in_turn([self._begin(begin, middle), *self._follow(middle, end)])
        return either([early, self._begin(middle, end)])

    def _follow(self, begin: int, end: int | None) -> list[JsonObject]:
        return [later for _, later in self._forms[begin:end]]


class LiteralGrammar(ParameterGrammar):
    """Arguments whose values are literals (`Literals`)."""

    def __init__(
        self,
        format_: Format,
        spelling: Spelling,
        root: JsonObject,
        any_order: bool,
        spend: Callable[[int], None],
    ) -> None:
        super().__init__(format_, spelling, root, any_order, spend)
        self._literals = spelling.literals or Literals(", ")
        self._exits = [self._literals.mark]
        self._open = Counter[str]()
        self._sizes = _Sizes()
        self._member_bytes += _VALUE_BYTES

    @override
    def _spell(self, key: str, depth: int) -> JsonObject:
        if depth and not self._literals.mark:
            return self._quote_text(key)
        if self._literals.mark and ":" not in key:
            return exactly(check_key(key))
        if _WORD.fullmatch(key) is None:
            raise Inexpressible(key)
        return exactly(key)

    @override
    def _spell_others(self, keys: Iterable[str], depth: int) -> JsonObject:
        key = self._differ(keys, _LETTERS)
        bare = self._literals.mark or not depth
        return key if bare else in_turn([exactly("'"), key, exactly("'")])

    @override
    def _build_member(self, key: JsonObject, schema: object, depth: int) -> JsonObject:
        self._spend(self._member_bytes)
        values = self._list_values(schema, depth)
        written = self._written[State.VALUE]
        if depth and not self._literals.mark:
            written = "{key}: {value}"
        return in_turn(fill(written, {"key": key, "value": either(values)})) if values else _NEVER

    @override
    def _combine(
        self, members: list[tuple[JsonObject, bool]], rest: JsonObject | None
    ) -> JsonObject:
        if (_NEVER, True) in members:
            raise _TooDeep("a required value contains itself")
        kept = [(member, needed) for member, needed in members if member != _NEVER]
        others = [] if rest in (None, _NEVER) else [rest]
        if self._any_order:
            every = [*(member for member, _ in kept), *others]
            return self._list(either(every)) if every else exactly("")
        return self._order(kept, others) if kept or others else exactly("")

    def _order(
        self, members: list[tuple[JsonObject, bool]], others: list[JsonObject]
    ) -> JsonObject:
        """Return the grammar of members in their order, then others."""
        # Each as the first of the members, and after another.
        forms = [(member, self._follow(member, needed=needed)) for member, needed in members]
        forms += [(self._list(member, 1), star(self._after(member))) for member in others]
        needs = [needed for _, needed in members]
        firsts = needs.index(True) + 1 if True in needs else len(forms)
        chain = _Chain(forms, firsts, self._sizes)
        self._spend(chain.size)
        return chain.build() if True in needs else optional(chain.build())

    def _follow(self, member: JsonObject, *, needed: bool) -> JsonObject:
        return self._after(member) if needed else optional(self._after(member))

    def _after(self, member: JsonObject) -> JsonObject:
        return in_turn([exactly(self._literals.between), member])

    def _list(self, item: JsonObject, least: int = 0, most: int | None = None) -> JsonObject:
        """Return the grammar of items with the text between them."""
        self._spend(2 * self._sizes.measure(item))
        most = None if most is None else most - 1
        items = in_turn([item, repeat(self._after(item), max(least - 1, 0), most)])
        return items if least else optional(items)

    def _list_values(self, schema: object, depth: int, branch: int = 0) -> list[JsonObject]:
        """Return the grammars of a schema's values; none where it contains itself too often.

        branch: the number of alternatives around the schema.
        """
        self._spend(self._member_bytes)
        if depth > MAX_SCHEMA_DEPTH:
            raise Inexpressible(f"its values are nested more than {MAX_SCHEMA_DEPTH} levels deep")
        reference = str(schema.get("$ref")) if isinstance(schema, dict) else ""
        nests = isinstance(schema, dict) and "$ref" in schema
        if nests and self._open[reference] >= MAX_NESTED:
            return []
        self._open[reference] += nests
        values = list(self._write_values(self._resolve(schema), depth, branch))
        self._open[reference] -= nests
        return values

    def _write_values(self, schema: JsonObject, depth: int, branch: int) -> Iterator[JsonObject]:
        literals = [schema["const"]] if "const" in schema else schema.get("enum")
        if literals:
            yield from map(self._write_literal, literals)
            return
        branches = list_branches(schema)
        if branches and branch < MAX_DEPTH:
            for alternative in branches:
                yield from self._list_values(alternative, depth, branch + 1)
            return
        kinds = self._schema.compile(schema)
        if "string" in kinds.kinds:
            yield self._write_text(schema)
        for kind in list_kinds(kinds):
            yield from self._write_other(schema, kind, depth)

    def _write_other(self, schema: JsonObject, kind: str, depth: int) -> Iterator[JsonObject]:
        """Yield the grammars of the values of one JSON type, not strings."""
        if kind in _KINDS:
            yield from (exactly(word) for value in _KINDS[kind] for word in _WORDS[value])
        elif kind == "array":
            yield from self._write_array(schema, depth)
        elif kind == "object":
            yield from self._write_object(schema, depth)
        else:
            limits = {word: schema[word] for word in _NUMBER_LIMITS if word in schema}
            yield {"type": "json_schema", "json_schema": {"type": kind, **limits}}

    def _write_object(self, schema: JsonObject, depth: int) -> Iterator[JsonObject]:
        if schema.get("additionalProperties") in (None, True) and not schema.get("properties"):
            yield self._write_any("object")
            return
        with suppress(_TooDeep):
            yield in_turn([exactly("{"), self._build_object(schema, depth + 1), exactly("}")])

    def _write_array(self, schema: JsonObject, depth: int) -> Iterator[JsonObject]:
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        firsts, items = schema.get("prefixItems"), schema.get("items", {})
        if items in ({}, True) and not (firsts or least or most is not None):
            yield self._write_any("array")
            return
        every = [self._list_values(item, depth + 1) for item in firsts or [items]]
        if most == 0 or not all(every):
            yield from [] if least else [exactly("[]")]
            return
        first, *rest = map(either, every)
        content = self._list(first, least, most)
        if firsts:
            content = in_turn([first, *map(self._after, rest)])
        yield in_turn([exactly("["), content, exactly("]")])

    def _write_any(self, kind: str) -> JsonObject:
        """Return the grammar of any object or array."""
        between, mark = _quote(self._literals.between), self._literals.mark
        strings = _write_marked(mark) if mark else _PYTHON_STRINGS
        grammar = f"root ::= {kind}\nbetween ::= {between}\n{strings}{_ANY_VALUE}"
        self._spend(len(grammar))
        return {"type": "grammar", "grammar": grammar}

    def _write_literal(self, literal: object) -> JsonObject:
        if isinstance(literal, str):
            return self._quote_text(literal)
        written = msgspec.json.encode(literal).decode()
        return either(map(exactly, _WORDS.get(written, (written,))))

    def _quote_text(self, text: str) -> JsonObject:
        mark = self._literals.mark
        if mark and mark in text:
            raise Inexpressible(text)
        written = [mark + text + mark] if mark else [repr(text), _quote(text)]
        return either(map(exactly, dict.fromkeys(written)))

    @override
    def _write_text(self, schema: JsonObject) -> JsonObject:
        if _PLAIN_PATTERN.fullmatch(schema.get("pattern") or "") is None:
            schema = {word: value for word, value in schema.items() if word != "pattern"}
        if mark := self._literals.mark:
            return in_turn([exactly(mark), super()._write_text(schema), exactly(mark)])
        pattern = schema.get("pattern") or STRING_FORMATS.get(str(schema.get("format")))
        least, most = min(schema.get("minLength", 0), MAX_LENGTH), schema.get("maxLength", "")
        texts = [
            (quote, pattern or f"(?:[^\\r\\n\\\\{quote}]|{_ESCAPE}){{{least},{most}}}")
            for quote in "'\""
        ]
        return either(
            in_turn([exactly(quote), matching(text), exactly(quote)]) for quote, text in texts
        )


def _quote(text: str) -> str:
    """Return a text in double quotes, which JSON, Python and EBNF read alike."""
    return msgspec.json.encode(text).decode()


def _write_marked(mark: str) -> str:
    """Return the rules of bare keys and of strings between marks, which do not have the mark."""
    key = "[a-zA-Z_] [a-zA-Z0-9_]{0,63}"
    rules = [f'member ::= {key} ":" value', f"string ::= {_quote(mark)} text0"]
    for index in range(len(mark)):
        # The beginning of the mark that a text has after each character that may follow.
        following = {
            other: max(n for n in range(index + 2) if (mark[:index] + other).endswith(mark[:n]))
            for other in sorted(set(mark))
        }
        following = {other: length for other, length in following.items() if length}
        ways = [
            _quote(other) + (f" text{length}" if length < len(mark) else "")
            for other, length in following.items()
        ]
        others = "".join(map(escape, following))
        rules.append(f"text{index} ::= {' | '.join([*ways, f'[^{others}] text0'])}")
    return "\n".join(rules)
