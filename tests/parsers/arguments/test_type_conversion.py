"""The JSON of a parameter's text: what validates, the most literal reading first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.base.limits import MAX_HELD_VALUE
from backedge.parsers.arguments.type_conversion import text_to_json
from backedge.parsers.arguments.value_between_tags import UNDECLARED, SchemaValue
from backedge.parsers.events import Malformation
from backedge.parsers.schema import FunctionSchema, ValueSchema, declare
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.parsers.arguments.reading import cut_pieces
from tests.parsers.drawn_schemas import Drawn, drawn_schemas

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]
STRING_OR_INTEGER = {"type": ["string", "integer"]}

CASES: list[tuple[Any, str, Any]] = [
    # Exactly what the text spells, as JSON or in Python, if that is declared.
    (STRING_OR_INTEGER, "42", 42),
    ({"anyOf": [{"const": "42"}, {"type": "integer"}]}, "42", 42),
    ({"type": ["string", "boolean"]}, "true", True),
    ({"type": ["string", "array"]}, '["a"]', ["a"]),
    ({"type": ["string", "array"]}, "['a', None, (1, 2)]", ["a", None, [1, 2]]),
    ({"type": ["string", "object"]}, '{"a": "x\ny"}', {"a": "x\ny"}),
    ({"type": "string", "nullable": True}, "null", None),
    ({"type": ["string", "null"]}, "None", None),
    ({"type": "number"}, "42.0", 42.0),
    ({"type": "integer"}, "42.0", 42),
    ({"type": "integer"}, "4.2e1", 42),
    ({"type": "integer"}, "-4200e-2", -42),
    ({"type": "integer"}, "0.0e-400", 0),
    ({"type": "integer"}, "9007199254740993.0", 9007199254740993),
    # The text as a string, if it spells nothing else that is declared.
    (STRING_OR_INTEGER, "42.5", "42.5"),
    (STRING_OR_INTEGER, "007", "007"),
    (STRING_OR_INTEGER, "+5", "+5"),
    (STRING_OR_INTEGER, "null", "null"),
    (STRING_OR_INTEGER, '"42"', '"42"'),
    (STRING_OR_INTEGER, "42.0000000000000001", "42.0000000000000001"),
    (STRING_OR_INTEGER, "1e-400", "1e-400"),
    (STRING_OR_INTEGER, "1e999999999", "1e999999999"),
    (STRING_OR_INTEGER, " padded ", " padded "),
    ({"type": ["string", "array"]}, "[INFO] up", "[INFO] up"),
    ({"type": ["string", "array"]}, "[1, 2] and more", "[1, 2] and more"),
    ({"type": ["string", "array"]}, "[1, 2", "[1, 2"),
    ({"type": ["string", "object"]}, "{name} is {age}", "{name} is {age}"),
    ({"type": ["string", "array"]}, '{"a": 1}', '{"a": 1}'),
    (
        {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]},
        '["a"]',
        '["a"]',
    ),
    ({"anyOf": [{"type": "integer", "minimum": 10}, {"type": "string"}]}, "9", "9"),
    (
        {"type": ["string", "null"], "oneOf": [{"type": "string"}, {"type": "integer"}]},
        "null",
        "null",
    ),
    ({"type": ["string", "number"]}, "1e400", "1e400"),
    ({"type": ["string", "number"]}, "NaN", "NaN"),
    # What may have been meant, if neither fits.
    ({"type": "integer"}, "007", 7),
    ({"type": "integer"}, "٣", 3),
    ({"type": "integer"}, "+5", 5),
    ({"type": "integer"}, "1_000", 1000),
    ({"type": "integer"}, "0x1F", 31),
    ({"type": "integer"}, " 5\n", 5),
    ({"type": "integer"}, '"42"', 42),
    ({"type": "number"}, ".5", 0.5),
    ({"type": "boolean"}, "TRUE", True),
    ({"type": "boolean"}, "0", False),
    ({"type": ["integer", "null"]}, "", None),
    ({"enum": ["auto", "on"]}, ' "auto"', "auto"),
    ({"enum": ["auto", "on"]}, " on", "on"),
    ({"type": "array"}, "[1, 2", "[1, 2"),
    ({"type": "object"}, "{a: 1}", "{a: 1}"),
    ({"type": "object"}, '{"a": }', '{"a": }'),
    ({"type": "object"}, '{"a": 1, "b"}', '{"a": 1, "b"}'),
    ({"type": "object"}, '{"a": "rm -rf /tmp', '{"a": "rm -rf /tmp'),
    # What is not declared.
    ({"type": "integer"}, "null", None),
    ({"type": "number"}, "None", None),
    ({"type": "boolean"}, "null", None),
    ({"type": "integer"}, "42.5", 42.5),
    ({"type": "integer"}, "many", "many"),
    ({"type": "integer"}, "12 apples", "12 apples"),
    ({"type": "integer"}, "", ""),
    ({"type": "object"}, "[1]", [1]),
    ({"enum": ["auto"]}, "off", "off"),
    ({"enum": [1, 2]}, "3", 3),
    ({"const": "auto"}, "42", "42"),
]


def compile_value(schema: Any) -> ValueSchema:
    return FunctionSchema({"properties": {"x": schema}}).member("x")


@pytest.mark.parametrize("text", [r'"\ud800"', r'"[\"\ud800\"]"', r"['\ud800']", r'["\ud800"]'])
@pytest.mark.parametrize("kinds", [["integer"], ["array"], ["array", "string"], ["string"]])
def test_half_a_character_is_never_written(text: str, kinds: list[str]) -> None:
    text_to_json(text, declare(*kinds)).encode()
    text_to_json(text, declare(*kinds), quoted=True).encode()
    text_to_json(text, compile_value({"enum": ["a", "\ud800"]})).encode()


@pytest.mark.parametrize(("schema", "text", "value"), CASES)
def test_cases(schema: Any, text: str, value: Any) -> None:
    found = json.loads(text_to_json(text, compile_value(schema)))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "[" * 50_000 + "]" * 50_000, "1" * 60_000, "'" * 999]
)
@pytest.mark.parametrize("kinds", [["array"], ["array", "string"], ["integer"]])
def test_endless_values(text: str, kinds: list[str]) -> None:
    text_to_json(text, declare(*kinds))


def feed(text: str, schema: ValueSchema, cuts: set[int], *, quoted: bool = False) -> Any:
    """Return the value of `text`; what was written of it if it is left open."""
    pieces: list[str] = []
    left_open: list[Malformation] = []
    value = SchemaValue(pieces.append, left_open.append, schema, "", quoted=quoted)
    for piece in cut_pieces(text, cuts):
        value.feed(piece)
    value.finish()
    written = "".join(pieces)
    return written if left_open else json.loads(written)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same; 1.0 is 1, but true is not."""
    return json.dumps(whole(one), sort_keys=True) == json.dumps(whole(other), sort_keys=True)


def whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


cuts = st.sets(st.integers(1, 40), max_size=6)


@settings(max_examples=500, deadline=None, database=None, suppress_health_check=SLOW)
@given(drawn=drawn_schemas(), cuts=cuts, python=st.booleans())
def test_a_value_written_as_text(drawn: Drawn, cuts: set[int], python: bool) -> None:
    """The value validates. It is the one written, unless that is a string that spells another."""
    schema, value = FunctionSchema(drawn.parameters).member("x"), drawn.value
    if not schema.declared:
        schema = UNDECLARED["json"]
    if isinstance(value, str):
        text = value
    elif python and not isinstance(value, dict | list):
        text = str(value)
    else:
        text = json.dumps(value, ensure_ascii=False)
    found = feed(text, schema, cuts)
    assert drawn.accepts(found), found
    if not isinstance(value, str):
        assert same(found, value)
    elif isinstance(found, str):
        assert found == value
    assert same(found, feed(text, schema, set()))


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=SLOW)
@given(drawn=drawn_schemas(), cuts=cuts)
def test_a_value_with_quotes_where_they_are_needed(drawn: Drawn, cuts: set[int]) -> None:
    """If strings that look like JSON are written as JSON, each value is the one written."""
    schema, value = FunctionSchema(drawn.parameters).member("x"), drawn.value
    if not schema.declared:
        schema = UNDECLARED["json"]
    text = json.dumps(value)
    if isinstance(value, str) and not looks_like_a_literal(value):
        text = value
    assert same(feed(text, schema, cuts, quoted=True), value)


def looks_like_a_literal(text: str) -> bool:
    return json.loads(text_to_json(text, UNDECLARED["json"])) != text or text.startswith('"')


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=SLOW)
@given(drawn=drawn_schemas(), text=st.text("ab1{}[]\"',: \\.-\n", max_size=20), cuts=cuts)
def test_any_text(drawn: Drawn, text: str, cuts: set[int]) -> None:
    """No text is lost to a type that is not declared, if a string validates."""
    schema = FunctionSchema(drawn.parameters).member("x")
    if not schema.declared:
        schema = UNDECLARED["json"]
    found = feed(text, schema, cuts)
    assert same(found, feed(text, schema, set()))
    if drawn.accepts(text):
        assert drawn.accepts(found)
        assert found == text or not isinstance(found, str)
    assert len(text) < MAX_HELD_VALUE


@pytest.mark.parametrize(
    ("kind", "literals", "text", "expected"),
    [
        ("array", ["view", "copy"], '["view"]', '["view"]'),
        ("boolean", ["True", "False"], "True", "true"),
        ("integer", ["1", "2"], "1", "1"),
        ("number", ["1.5"], "1.5", "1.5"),
        ("object", ["x"], '{"a": 1}', '{"a": 1}'),
        ("string", ["1", "2"], "1", '"1"'),
        ("integer", [1, 2], "1", "1"),
        (None, ["1", "2"], "1", '"1"'),
    ],
)
def test_literals_narrow_a_type_and_never_replace_it(
    kind: str | None, literals: list[object], text: str, expected: str
) -> None:
    schema = {"enum": literals} | ({} if kind is None else {"type": kind})
    compiled = FunctionSchema({"properties": {"x": schema}}).member("x")
    assert compiled.declared
    assert text_to_json(text, compiled) == expected
