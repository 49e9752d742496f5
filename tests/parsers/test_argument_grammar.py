"""The grammar of parameters between tags, judged by xgrammar for each kind of schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.parsers.argument_grammar import Inexpressible
from backedge.parsers.format import Format, Spelling, State
from backedge.parsers.structural_tag import Arguments

from tests.parsers.walks import accepts

xgrammar = pytest.importorskip("xgrammar")

TAGS = Spelling("<f={name}>{arguments}</f>", parameters={State.VALUE: "<p={key}>{value}</p>\n"})
TYPED = Spelling(
    "",
    parameters={
        State.STRING: '<p k="{key}" t="string">{value}</p>',
        State.JSON: '<p k="{key}" t="{type}">{value}</p>',
    },
)
ENDS = {"</p>": State.PARAMETERS}
STATES = {
    State.CONTENT: {"<f=": State.NAME},
    State.NAME: {">": State.PARAMETERS},
    State.PARAMETERS: {"<p=": State.KEY, "</f>": State.CONTENT},
    State.KEY: {">": State.VALUE},
    State.VALUE: ENDS,
}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
# schema of `x`, values that are accepted, values that are not
VALUES: list[tuple[Any, list[str], list[str]]] = [
    ({"type": "string"}, ["", "a", "42", "two\nlines", "<b>"], ["</p>", "a</f>"]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd", "\nab"]),
    ({"type": "string", "maxLength": 1}, ["", "a"], ["ab"]),
    ({"type": "string", "pattern": "^[a-c]+$"}, ["abc"], ["", "d"]),
    ({"type": "string", "format": "date"}, ["2026-11-25"], ["today"]),
    ({"enum": ["a", "b c", 1, None]}, ["a", "b c", "1", "null"], ["b", '"a"', "2", "None"]),
    ({"const": "v"}, ["v"], ["w"]),
    ({"type": "integer", "minimum": 3}, ["3", "40"], ["2", "x", '"3"', "3.5"]),
    ({"type": "boolean"}, ["true", "True", "false"], ["TRUE", "1", "None"]),
    ({"type": ["integer", "null"]}, ["1", "null", "None"], ["x"]),
    ({"type": "array", "items": {"type": "integer"}}, ["[1, 2]", "[]"], ['["a"]', "1"]),
    ({"type": "object", "properties": {"k": {"enum": [1]}}}, ['{"k": 1}', "{}"], ['{"k": 2}']),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "a+"}]}, ["1", "aa"], ["b"]),
    ({"oneOf": [{"const": "a"}, {"type": "null"}]}, ["a", "null"], ["b"]),
    ({"$ref": "#/$defs/level"}, ["low"], ["middle"]),
    ({"$ref": "#/$defs/node"}, ['{"next": {"next": {}}}'], ["x", '{"next": 1}']),
    ({"$ref": "#/properties/y"}, ["1"], ["x"]),
    ({"type": "array", "items": {"$ref": "#/properties/y"}}, ["[1]"], ['["x"]']),
    ({"type": "array", "items": {"$ref": "#"}}, ['[{"x": []}]'], ["[1]", '[{"y": 1}]']),
    ({"type": "array", "items": {"$ref": "http://x/y"}}, ["1"], []),
    ({}, ["a", "1", "{}"], ["</p>"]),
    (True, ["a", "1"], []),
]


def compile_arguments(spelling: Spelling, schema: Any, *, any_order: bool = False) -> Any:
    format_ = Format("ours", STATES, source="a test", spelling=spelling)
    tag = {
        "type": "tag",
        "begin": "",
        "content": Arguments(format_, spelling, any_order=any_order).build(schema),
        "end": "</f>",
    }
    return xgrammar.Grammar.from_structural_tag(
        json.dumps({"type": "structural_tag", "format": tag})
    )


def declare(schema: Any, **words: Any) -> dict[str, Any]:
    definitions = {"node": NODE, "level": {"enum": ["low", "high"]}}
    return {
        "type": "object",
        "properties": {"x": schema, "y": {"type": "integer"}},
        "required": ["x"],
        "$defs": definitions,
        **words,
    }


@pytest.mark.parametrize(("schema", "good", "bad"), VALUES, ids=lambda value: str(value)[:50])
def test_values(schema: Any, good: list[str], bad: list[str]) -> None:
    grammar = compile_arguments(TAGS, declare(schema))
    assert [value for value in good if not accepts(grammar, f"<p=x>{value}</p>\n</f>")] == []
    assert [value for value in bad if accepts(grammar, f"<p=x>{value}</p>\n</f>")] == []


def test_order_and_presence() -> None:
    x, y, z = "<p=x>1</p>", "<p=y>1</p>", "<p=z>1</p>"
    strict = compile_arguments(TAGS, declare({}))
    assert [accepts(strict, f"{text}</f>") for text in (x, x + y, y, y + x, x + z)] == [
        True, True, False, False, False,
    ]  # fmt: skip
    free = compile_arguments(TAGS, declare({}), any_order=True)
    assert [accepts(free, f"{text}</f>") for text in (y + x, y, z)] == [True, True, False]
    more = compile_arguments(TAGS, declare({}, additionalProperties={"type": "integer"}))
    assert [accepts(more, f"{text}</f>") for text in (x + z, "<p=x>1</p><p=z>a</p>")] == [
        True,
        False,
    ]
    assert [accepts(more, f"{x}<p={key}>1</p></f>") for key in ("xx", "yx", "a", "x", "y")] == [
        True, True, True, False, True,
    ]  # fmt: skip
    either = compile_arguments(TAGS, {"anyOf": [{"properties": {"x": {}}}, declare({"enum": [2]})]})
    assert [accepts(either, f"{text}</f>") for text in (x, "<p=x>2</p>" + y, x + y)] == [
        True,
        True,
        False,
    ]
    nothing = compile_arguments(TAGS, {"type": "object", "properties": {}})
    assert accepts(nothing, "</f>")


def test_numbers_of_elements() -> None:
    spelling = Spelling("", parameters={State.ELEMENTS: "<{key}>{value}</{key}>"})
    items = {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}
    format_ = Format("x", STATES, "", spelling=spelling, tag_prefix="<")
    content = Arguments(format_, spelling, any_order=False).build(declare(items))
    tag = {"type": "tag", "begin": "", "content": content, "end": "</f>"}
    whole = {"type": "structural_tag", "format": tag}
    grammar = xgrammar.Grammar.from_structural_tag(json.dumps(whole))
    one = "<item>1</item>"
    texts = [f"<x>{one * number}</x></f>" for number in range(4)]
    assert [accepts(grammar, text) for text in texts] == [False, True, True, False]


def test_types_of_values() -> None:
    grammar = compile_arguments(TYPED, declare({"type": ["string", "integer", "object"]}))
    for kind, value in (("string", "1"), ("number", "1"), ("object", "{}")):
        assert accepts(grammar, f'<p k="x" t="{kind}">{value}</p></f>')
    for kind, value in (("number", "a"), ("object", "1"), ("null", "null")):
        assert not accepts(grammar, f'<p k="x" t="{kind}">{value}</p></f>')


@pytest.mark.parametrize("key", ["a>b", "a b ", "", 'say "x"', "a\nb"])
def test_a_key_that_would_need_escapes(key: str) -> None:
    with pytest.raises(Inexpressible):
        compile_arguments(TAGS, {"type": "object", "properties": {key: {}}})


def test_references_that_stand_for_millions_of_values_cost_little() -> None:
    again = {"$ref": "#/$defs/a"}
    wide = {"anyOf": [again] * 9}
    nested = {"type": "object", "properties": dict.fromkeys("abcdefghi", again)}
    elements = Spelling("", parameters={State.ELEMENTS: "<{key}>{value}</{key}>"})
    for spelling, part in ((TAGS, wide), (TYPED, wide), (elements, nested)):
        schema = {"type": "object", "properties": {"x": again}, "$defs": {"a": part}}
        format_ = Format("x", STATES, "", spelling=spelling, tag_prefix="<")
        with pytest.raises(Inexpressible, match="more than 1048576 bytes"):
            Arguments(format_, spelling, any_order=False).build(schema)
