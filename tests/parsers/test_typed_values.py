"""Values drawn from schemas, written by each family whose parameters are text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import ToolCallArguments
from backedge.parsers.format import State
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers, tool_format
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.parsers.drawn_schemas import Drawn, drawn_schemas
from tests.parsers.driver import cut, cut_at, run
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import Family


def has_text_values(family: Family) -> bool:
    format_ = tool_format(family.tool_parser or "")
    return format_ is not None and not {State.VALUE, State.ELEMENTS}.isdisjoint(format_.states)


TEXT_FAMILIES = [family for family in FAMILIES.values() if has_text_values(family)]
PARSERS = {
    family.name: linear_parsers(ParserNames(family.tool_parser), Vocabulary())
    for family in TEXT_FAMILIES
}


def read_value(family: Family, drawn: Drawn, cuts: set[int]) -> Any:
    """Return the value of a call's parameter, as the parser reads it."""
    function = {"name": "f", "parameters": drawn.parameters}
    request = ParserRequest(tools=[{"type": "function", "function": function}], tool_choice="auto")
    parser = PARSERS[family.name](request, [])
    assert family.write is not None
    events = run(parser, cut_at(family.write("", [("f", {"x": drawn.value})]), cuts))
    return json.loads(
        "".join(event.text for event in events if isinstance(event, ToolCallArguments))
    )["x"]


def same(found: Any, drawn: Any) -> bool:
    """Whether a value is the one drawn; a float may be written with any digits that mean it."""
    if isinstance(drawn, dict) and isinstance(found, dict):
        return found.keys() == drawn.keys() and all(same(found[key], drawn[key]) for key in drawn)
    if isinstance(drawn, list) and isinstance(found, list):
        return len(found) == len(drawn) and all(map(same, found, drawn))
    if isinstance(drawn, float) and not isinstance(found, bool | str | None):
        return float(found) == drawn
    return type(found) is type(drawn) and bool(found == drawn)


def can_write(family: Family, value: Any) -> bool:
    """Whether the syntax can write the value: no outer white space, nothing nested in elements."""
    if isinstance(value, str):
        return value.strip() == value and not value.startswith('"')
    format_ = tool_format(family.tool_parser or "")
    nests = isinstance(value, dict | list)
    return not nests or (format_ is not None and State.VALUE in format_.states)


@pytest.mark.parametrize("family", TEXT_FAMILIES, ids=lambda family: family.name)
@settings(
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(drawn=drawn_schemas(), cuts=st.sets(st.integers(1, 200), max_size=8))
def test_the_value_read_is_the_value_written(family: Family, drawn: Drawn, cuts: set[int]) -> None:
    """Apart from strings that spell another value that the schema accepts, too."""
    assume(can_write(family, drawn.value))
    found = read_value(family, drawn, cuts)
    assert drawn.accepts(found), found
    if not isinstance(drawn.value, str) or isinstance(found, str):
        assert same(found, drawn.value), found


@pytest.mark.parametrize("value", ["[1, 2] and more", '{"a": 1} and more'])
@pytest.mark.parametrize("family", TEXT_FAMILIES, ids=lambda family: family.name)
def test_text_after_a_container_is_not_dropped(family: Family, value: str) -> None:
    properties = {"x": {"type": ["array", "object"]}}
    function = {"name": "f", "parameters": {"type": "object", "properties": properties}}
    request = ParserRequest(tools=[{"type": "function", "function": function}], tool_choice="auto")
    parser = PARSERS[family.name](request, [])
    assert family.write is not None
    output = family.write("", [("f", {"x": "PLACE"})]).replace("PLACE", value.replace('"', "'"))
    events = run(parser, [output])
    sent = "".join(event.text for event in events if isinstance(event, ToolCallArguments))
    assert "and more" in sent


WRITE = {
    "hermes": '<tool_call>{{"name": "f", "arguments": {{"{key}": {json}}}}}</tool_call>',
    "kimi_k2": "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    '{{"{key}": {json}}}<|tool_call_end|>',
    "pythonic": "[f({key}={python})]",
    "gemma4": "<|tool_call>call:f{{{key}:{marked}}}<tool_call|>",
    "qwen3_coder": "<tool_call><function=f><parameter={key}>{text}</parameter></function>",
    "deepseek_v32": '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter '
    'name="{key}" string="{quoted}">{text}</｜DSML｜parameter></｜DSML｜invoke>',
    "kimi_k3": '<|open|>tools<|sep|><|open|>call tool="f"<|sep|><|open|>argument key="{key}" '
    'type="{type}"<|sep|>{text}<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
}
# Syntaxes whose values have types of their own, of which only a string may become another.
TYPED = {"hermes", "kimi_k2", "pythonic", "deepseek_v32", "kimi_k3"}
TYPES = {"i": "integer", "f": "number", "b": "boolean", "s": "string", "a": "array", "o": "object"}
# One table for all formats: a declared key, the JSON that the model writes, and the value read.
RETYPED: list[tuple[str, str, Any]] = [
    ("i", '"42"', 42),
    ("i", '"x"', "x"),
    ("f", '"4.5"', 4.5),
    ("b", '"true"', True),
    ("b", "1", True),
    ("a", '"[1, 2]"', [1, 2]),
    ("o", '"{}"', {}),
    ("s", "42", "42"),
    ("s", "4.50", "4.50"),
    ("s", "true", "true"),
    ("s", '"null"', "null"),
    ("i", "null", None),
    ("s", "null", None),
]


@pytest.mark.parametrize(("key", "written", "expected"), RETYPED)
@pytest.mark.parametrize("name", WRITE)
def test_a_scalar_has_the_declared_type_in_every_format(
    name: str, key: str, written: str, expected: Any
) -> None:
    quoted = written.startswith('"')
    if name == "qwen3_coder" and written == "null" and key == "s":
        expected = "null"  # plain text has no null beside strings
    if name in TYPED and not quoted:
        expected = json.loads(written)
    text = written.strip('"')
    output = WRITE[name].format(
        key=key,
        json=written,
        python={"null": "None", "true": "True"}.get(written, written),
        marked=written.replace('"', '<|"|>'),
        text=text,
        quoted=str(quoted).lower(),
        type="string" if quoted else {"t": "boolean", "n": "null"}.get(text[0], "number"),
    )
    properties = {name: {"type": type_} for name, type_ in TYPES.items()}
    function = {"name": "f", "parameters": {"type": "object", "properties": properties}}
    request = ParserRequest(tools=[{"type": "function", "function": function}], tool_choice="auto")
    for size in (1, len(output)):
        parser = linear_parsers(ParserNames(name), Vocabulary())(request, [])
        events = run(parser, cut(output, size))
        sent = [event.text for event in events if isinstance(event, ToolCallArguments)]
        assert same(json.loads("".join(sent))[key], expected)
