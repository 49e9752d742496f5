"""The grammars of literals, Python's and those with marks around strings, judged by xgrammar."""

from __future__ import annotations

import contextlib
import itertools
import json
import tracemalloc
from typing import Any

import pytest
from backedge.base.limits import MAX_GRAMMAR_BYTES
from backedge.parsers.argument_grammar import Inexpressible
from backedge.parsers.format import Format, Literals, Spelling, State
from backedge.parsers.structural_tag import Arguments

from tests.parsers.walks import accepts, xgrammar

PYTHON = Spelling(
    "{name}({arguments})", parameters={State.VALUE: "{key}={value}"}, literals=Literals(", ")
)
MARKED = Spelling(
    "{name}{{arguments}}", parameters={State.VALUE: "{key}:{value}"}, literals=Literals(",", "~!")
)
CALLS = {State.CONTENT: {"<c>": State.PYTHON_LINES}, State.PYTHON_LINES: {"</c>": State.CONTENT}}
ITEMS = {"type": "array", "items": {"type": "integer"}}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
# schema of `x`; values in Python's syntax, accepted and not; values with marks, accepted and not
VALUES: list[tuple[Any, list[str], list[str], list[str], list[str]]] = [
    ({"type": "string"},
     ["''", '"it\'s"', r"'it\'s \x41\u00e9\n'", "'世'"], ["'it's'", "a", "'\n'", r"'\q'", "'a\""],
     ["~!~!", "~!a\n'b' ~ !~!"], ["a", "'a'", "~!a~!b~!"]),
    ({"type": "string", "minLength": 2, "maxLength": 3},
     ["'ab'", r"'a\''", '"abc"'], ["'a'", "'abcd'"], ["~!ab~!", "~!abc~!"], ["~!a~!", "~!abcd~!"]),
    ({"type": "string", "pattern": "^[A-C]{2}-\\d+$"},
     ["'AB-1'", '"CC-42"'], ["'AB1'"], ["~!AB-1~!"], ["~!AB1~!"]),
    # A pattern that could match a quote or a mark is not held.
    ({"type": "string", "pattern": "^.+$"}, ["'a'", "''"], ["'a'b'"], ["~!a~!"], ["~!a~!b~!"]),
    ({"type": "string", "format": "date"},
     ["'2026-11-25'"], ["'today'"], ["~!2026-11-25~!"], ["~!today~!"]),
    ({"enum": ["a", "it's", 1, None]},
     ["'a'", '"a"', '"it\'s"', "1", "None"], ["'b'", "a", "2", "'1'"],
     ["~!a~!", "~!it's~!", "1", "null"], ["~!b~!", "a", "2"]),
    ({"const": [1, "a"]}, ['[1,"a"]'], ["[1]"], ['[1,"a"]'], ["[1]"]),
    ({"type": "integer", "minimum": 3, "maximum": 12}, ["3", "12"], ["2", "13", "'3'", "x"],
     ["3"], ["2", "~!3~!"]),
    ({"type": "boolean"}, ["True", "false"], ["TRUE", "1", "'true'"], ["true"], ["1", "~!true~!"]),
    ({"type": ["number", "null"]}, ["0.5", "None", "null"], ["'None'"], ["None", "-1"], ["none"]),
    (ITEMS, ["[]", "[1, 2]"], ["[1,2]", "['a']", "1", "[1, ]"], ["[]", "[1,2]"], ["[1, 2]"]),
    ({**ITEMS, "minItems": 1, "maxItems": 2},
     ["[1]", "[1, 2]"], ["[]", "[1, 2, 3]"], ["[1]"], ["[]", "[1,2,3]"]),
    ({**ITEMS, "maxItems": 0}, ["[]"], ["[1]"], ["[]"], ["[1]"]),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
     ["[1, 'a']"], ["[1]", "['a', 1]"], ["[1,~!a~!]"], ["[1]"]),
    ({"type": "object", "properties": {"k": {"enum": [1]}, "l": {}}, "required": ["l"]},
     ["{'k': 1, 'l': 'a'}", '{"l": [1, {}]}'], ["{'k': 1}", "{}", "{k: 1, l: 1}", "{'k':1,'l':1}"],
     ["{k:1,l:~!a~!}", "{l:[1,{}]}"], ["{k:1}", "{'l':1}", "{l:1,k:1}"]),
    ({"type": "object", "properties": {"k": {}, "l": {}}},
     ["{}", "{'k': 1}", "{'l': 1}", "{'k': 1, 'l': 1}"], ["{'l': 1, 'k': 1}", "{'m': 1}"],
     ["{}", "{k:1,l:1}"], ["{m:1}", "{,l:1}"]),
    ({"type": "object", "additionalProperties": {"type": "integer"}},
     ["{}", "{'a': 1, 'b': 2}"], ["{'a': 'x'}"], ["{a:1,b_2:2}"], ["{a:~!x~!}", "{1:1}"]),
    ({"type": "object"},
     ["{}", "{'a b': {'c': [True, None, \"x\"]}}"], ["{a: 1}", "[]"],
     ["{a:{c:[true,None,~!x~y!~!]}}"], ["{a:~!x~!y}", "[]"]),
    ({"anyOf": [{"type": "integer"}, {"const": "a"}]}, ["1", "'a'"], ["'b'"], ["1", "~!a~!"], []),
    # A schema that refers to itself is followed three times.
    ({"$ref": "#/$defs/node"},
     ["{}", "{'next': {'next': {}}}"], ["{'next': 1}", "{'next': {'next': {'next': {}}}}"],
     ["{next:{next:{}}}"], ["{next:{next:{next:{}}}}"]),
    ({}, ["1", "'a'", "[[1], {}]", "{'a': 1}"], ["a"], ["1", "~!a~!", "[[1],{}]"], ["a"]),
]  # fmt: skip


def compile_arguments(spelling: Spelling, schema: Any, *, any_order: bool = False) -> Any:
    format_ = Format("ours", CALLS, source="a test", spelling=spelling)
    content = Arguments(format_, spelling, any_order=any_order).build(schema)
    tag = {"type": "tag", "begin": "", "content": content, "end": "$"}
    return xgrammar.Grammar.from_structural_tag(
        json.dumps({"type": "structural_tag", "format": tag})
    )


def declare(schema: Any, **words: Any) -> dict[str, Any]:
    properties = {"w": {"type": "null"}, "x": schema, "y": {"type": "integer"}}
    more = {"required": ["x"], "$defs": {"node": NODE}, **words}
    return {"type": "object", "properties": properties, **more}


@pytest.mark.parametrize(
    ("schema", "good", "bad", "marked", "not_marked"), VALUES, ids=lambda value: str(value)[:50]
)
def test_values(
    schema: Any, good: list[str], bad: list[str], marked: list[str], not_marked: list[str]
) -> None:
    for spelling, sign, accepted, refused in (
        (PYTHON, "=", good, bad),
        (MARKED, ":", marked, not_marked),
    ):
        grammar = compile_arguments(spelling, declare(schema))
        assert [value for value in accepted if not accepts(grammar, f"x{sign}{value}$")] == []
        assert [value for value in refused if accepts(grammar, f"x{sign}{value}$")] == []


def test_order_and_presence() -> None:
    ordered = compile_arguments(PYTHON, declare({"type": "integer"}))
    for text in ("x=1", "w=None, x=1", "x=1, y=2", "w=None, x=1, y=2"):
        assert accepts(ordered, f"{text}$")
    for text in ("", "w=None", "y=2", "x=1y=2", "x=1, w=None", ", x=1", "x=1, ", "x=1, z=1"):
        assert not accepts(ordered, f"{text}$")
    free = compile_arguments(PYTHON, declare({"type": "integer"}), any_order=True)
    assert accepts(free, "y=2, x=1$")
    assert not accepts(free, "y=2, z=1$")
    optional = compile_arguments(MARKED, declare({}, required=[], additionalProperties=ITEMS))
    for text in ("", "y:1", "w:null,y:1", "w:null,more:[1],most:[]", "more:[]"):
        assert accepts(optional, f"{text}$")
    for text in (",y:1", "y:1,w:null", "more:1", "w:null,"):
        assert not accepts(optional, f"{text}$")
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    for any_order in (False, True):
        assert accepts(compile_arguments(MARKED, nothing, any_order=any_order), "$")


@pytest.mark.parametrize("spelling", [PYTHON, MARKED])
def test_what_cannot_be_written_has_no_grammar(spelling: Spelling) -> None:
    requires_itself = {**NODE, "required": ["next"]}
    for schema in (
        declare({}, properties={"a:b": {}}),
        declare({}, properties={"": {}}),
        declare({"$ref": "#/$defs/node"}, **{"$defs": {"node": requires_itself}}),
    ):
        with pytest.raises(Inexpressible):
            compile_arguments(spelling, schema)
    with pytest.raises(Inexpressible):
        compile_arguments(MARKED, declare({"const": "a~!"}))
    with pytest.raises(Inexpressible):
        compile_arguments(PYTHON, declare({}, properties={"a-b": {}}))


def test_references_that_stand_for_millions_of_values_cost_little() -> None:
    again = {"$ref": "#/$defs/a"}
    wide = {"type": "object", "properties": dict.fromkeys("abcdefghijklmnopqrst", again)}
    for spelling in (PYTHON, MARKED):
        with pytest.raises(Inexpressible, match=f"more than {MAX_GRAMMAR_BYTES} bytes"):
            compile_arguments(spelling, declare(again, **{"$defs": {"a": wide}}))


@pytest.mark.parametrize("required", [(), (0,), (3,), (6,), (1, 4), tuple(range(7))], ids=str)
def test_any_part_of_the_members_may_follow_each_other_in_order(required: tuple[int, ...]) -> None:
    members = [f"p{number}" for number in range(7)]
    schema = {"type": "object", "properties": {name: {"const": 1} for name in members}}
    grammar = compile_arguments(PYTHON, {**schema, "required": [members[n] for n in required]})
    for written in itertools.product((False, True), repeat=len(members)):
        text = ", ".join(f"{name}=1" for name in itertools.compress(members, written))
        assert accepts(grammar, f"{text}$") is all(written[n] for n in required), text


def nest(levels: int) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def chain(length: int) -> dict[str, Any]:
    """Return an object within which objects follow by references, so many levels."""
    parts = {
        f"d{n}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}}
        for n in range(length)
    }
    return {**parts["d0"], "$defs": {**parts, f"d{length}": {"type": "integer"}}}


FLAGS = {f"flag_{number:04}": {"type": "boolean"} for number in range(1500)}
LARGE = [
    {"type": "object", "properties": FLAGS},
    {"type": "object", "properties": FLAGS, "additionalProperties": True},
    declare(nest(46)),
    chain(400),
    {"type": "object", "properties": {"x" * 5000: {}}, "additionalProperties": True},
    {"type": "object", "properties": {f"{n:04}{'x' * 60}": {} for n in range(1000)}}
    | {"additionalProperties": True},
]


@pytest.mark.parametrize("spelling", [PYTHON, MARKED])
@pytest.mark.parametrize("schema", LARGE, ids=lambda schema: str(schema)[:50])
def test_a_large_grammar_is_refused_before_it_is_made(spelling: Spelling, schema: Any) -> None:
    format_ = Format("ours", CALLS, source="a test", spelling=spelling)
    tracemalloc.start()
    with contextlib.suppress(Inexpressible):
        Arguments(format_, spelling, any_order=False).build(schema)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MAX_GRAMMAR_BYTES
