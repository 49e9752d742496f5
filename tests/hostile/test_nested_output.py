"""Nesting in outputs: the limits decide, never Python's own, which differs between its versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import pytest
from backedge.base.json_types import JsonObject
from backedge.base.limits import MAX_DECODED_NESTING
from backedge.frontend.response.inert_content import spell_inert
from backedge.guided.client_schemas import find_fault
from backedge.parsers.arguments.type_conversion import text_to_json
from backedge.parsers.events import Event, ToolCallArguments, ToolCallStarted
from backedge.parsers.schema import FunctionSchema, ValueSchema
from backedge.parsers.schema_validation import accepts

from tests.hostile.test_linear_output import BY_NAME, build_worker, list_outputs, without_ids
from tests.parsers import driver
from tests.parsers.families.family import Family
from tests.slips.slips import write
from tests.slips.systems import WRITERS

# Frames below a call. Python 3.11 counts them and the levels of a decoder together.
STACKS = (0, 300)
DEPTHS = (2, MAX_DECODED_NESTING - 1, MAX_DECODED_NESTING, 600, 900, 9_000)
CALLS = [("search", {"city": ["Oslo"], "n": 5})]
# As a family writes a list; one writes tags instead.
LIST = r"\[\W{0,9}Oslo\W{0,9}\]"
LIST_WRITERS = [family for family in WRITERS if re.search(LIST, write(family, CALLS))]
T = TypeVar("T")


def call_at(frames: int, function: Callable[[], T]) -> T:
    """Call a function with so many frames below it."""
    return function() if frames == 0 else call_at(frames - 1, function)


def call_everywhere(function: Callable[[], T]) -> T:
    """Return what a function returns, which is the same at each depth of the stack."""
    first, *others = [call_at(frames, function) for frames in STACKS]
    assert all(other == first for other in others)
    return first


def compile_schema(schema: JsonObject) -> ValueSchema:
    return FunctionSchema({"type": "object", "properties": {"value": schema}}).member("value")


def nest(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("levels", [2, MAX_DECODED_NESTING, 900, 9_000])
@pytest.mark.parametrize("family", LIST_WRITERS, ids=lambda family: family.name)
def test_a_nested_argument_is_a_value_or_beyond_the_limit_a_string(
    family: Family, levels: int
) -> None:
    text = re.sub(LIST, nest(levels), write(family, CALLS))
    schema = {"type": "object", "properties": {"city": {"type": "array"}, "n": {}}}
    tool = {"type": "function", "function": {"name": "search", "parameters": schema}}

    def read() -> list[Event]:
        return driver.read(family.names, text, tools=[tool])

    events = call_everywhere(read)
    calls = [event for event in events if isinstance(event, ToolCallStarted | ToolCallArguments)]
    assert isinstance(calls[-1], ToolCallArguments)
    arguments = re.sub(r"\s", "", calls[-1].text)
    value, string = f'"city":{nest(levels)},', f'"city":"{nest(levels)}",'
    assert value in arguments or (levels > MAX_DECODED_NESTING - 2 and string in arguments)


@pytest.mark.parametrize("opener", ["[", '{"a":'])
@pytest.mark.parametrize("name", BY_NAME)
def test_open_brackets_give_the_same_answer_everywhere(name: str, opener: str) -> None:
    worker, honest = build_worker(name), (list_outputs(BY_NAME[name]) or [""])[0]
    text = honest[: len(honest) * 2 // 3] + opener * (700 // len(opener))
    call_everywhere(lambda: without_ids(worker.answer(text, reason="length")))


@pytest.mark.parametrize("levels", [*DEPTHS, 100_000])
def test_text_of_a_declared_type(levels: int) -> None:
    text = nest(levels)
    found = call_everywhere(lambda: text_to_json(text, compile_schema({"type": "array"})))
    assert found == (text if levels <= MAX_DECODED_NESTING else f'"{text}"')
    opened = "[" * levels
    assert call_everywhere(lambda: text_to_json(opened, compile_schema({}))) == f'"{opened}"'


@pytest.mark.parametrize("levels", [*DEPTHS, 100_000])
def test_content_of_an_answer(levels: int) -> None:
    answer = f'{{"name": {nest(levels)}}}'
    found = call_everywhere(lambda: spell_inert(answer, "hermes"))
    assert found == (answer if levels < MAX_DECODED_NESTING else answer.replace('"', ""))


def test_values_of_an_enumeration_are_compared_to_a_depth() -> None:
    literal: list[object] = []
    for _ in range(400):
        literal = [literal]
    schema = compile_schema({"enum": [literal]})
    assert call_everywhere(lambda: accepts(schema, [literal]))
    assert not call_everywhere(lambda: accepts(schema, [1]))


@pytest.mark.parametrize(
    "pattern", ["(a|" * 64 + "b" + ")+" * 64, "(?=(a|" * 32 + "b" + ")+)" * 32]
)
def test_groups_of_an_expression(pattern: str) -> None:
    assert call_everywhere(lambda: find_fault({"pattern": pattern})) is None
