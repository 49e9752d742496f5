"""The steps of engines' tool parsers, as events."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from backedge.parsers.events import Content, ToolCallArguments, ToolCallStarted
from backedge.parsers.native.call_items import MAX_STEPS, CallItem, CallItems


@dataclass
class Item(CallItem):
    tool_index: int
    name: str | None = None
    parameters: str = ""


def test_arguments_of_an_open_call_precede_the_text_and_the_text_the_next_call() -> None:
    items = CallItems(None, 0)
    list(items.read("", [Item(0, "f")]))
    events = items.read("text", [Item(0, None, "{}"), Item(1, "g", "[]")])
    assert list(events) == [
        ToolCallArguments(0, "{}"),
        Content("text"),
        ToolCallStarted(1, "g", None),
        ToolCallArguments(1, "[]"),
    ]


def test_a_tools_place_in_the_request_may_stand_for_two_calls() -> None:
    items = CallItems(None, 0)
    events = items.read("", [Item(5, "f", "1"), Item(5, "f", "2"), Item(5, None, "3")])
    assert list(events) == [
        *(ToolCallStarted(0, "f", None), ToolCallArguments(0, "1")),
        *(ToolCallStarted(1, "f", None), ToolCallArguments(1, "2")),
        ToolCallArguments(1, "3"),
    ]


def test_arguments_without_a_call_are_dropped() -> None:
    assert list(CallItems(None, 0).read("", [Item(0, None, "{}")])) == []


@pytest.mark.parametrize(
    ("name", "call_id"),
    [("kimi_k2", "functions.f:3"), ("kimi_k3", "f:3"), ("qwen3", None), (None, None)],
)
def test_ids_are_those_of_the_format(name: str | None, call_id: str | None) -> None:
    (event,) = CallItems(name, earlier_calls=3).read("", [Item(0, "f")])
    assert event == ToolCallStarted(0, "f", call_id)


def test_the_rest_is_read_until_a_step_gives_nothing() -> None:
    steps = iter([("a", []), ("", [Item(0, "f")]), ("", []), ("never", [])])
    events = CallItems(None, 0).read_rest(lambda: next(steps))
    assert list(events) == [Content("a"), ToolCallStarted(0, "f", None)]


def test_a_parser_that_never_ends_is_left() -> None:
    assert len(list(CallItems(None, 0).read_rest(lambda: ("a", [])))) == MAX_STEPS
