"""A grammar reads up to a marker; from what is no call in a list on, the list is text."""

from __future__ import annotations

import pytest
from backedge.parsers.compiled_format import compile_format
from backedge.parsers.events import Content, Event, ToolCallArguments, ToolCallStarted
from backedge.parsers.format import Format, Jump, State
from backedge.parsers.machine import LinearParser

from tests.parsers.driver import cut, run

LISTS = Format(
    "test",
    {State.CONTENT: {"<calls>": State.JSON_CALLS}, State.JSON_CALLS: {"</calls>": Jump.RETURN}},
    source="this test",
)
CALL = '{"name": "f", "arguments": {}}'
F: list[Event] = [ToolCallStarted(0, "f"), ToolCallArguments(0, "{}")]


def parse(output: str, size: int) -> list[Event]:
    return run(LinearParser(compile_format(None, LISTS, {}), {"f": {}}), cut(output, size))


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (f"<calls>[{CALL}]</calls> x", [*F, Content(" x")]),
        (f"<calls>[5, {CALL}]</calls>", [Content(f"<calls>[5, {CALL}]</calls>")]),
        (f"<calls>[{CALL}, 5]</calls> x", [*F, Content("5] x")]),
        (f"<calls>[a <calls>[{CALL}]</calls>", [Content("<calls>[a "), *F]),
        ("<calls>[5]</calls>", [Content("<calls>[5]</calls>")]),
        ("<calls>[5] x", [Content("<calls>[5] x")]),
        ("<calls>[.", [Content("<calls>[.")]),
    ],
)
def test_what_a_client_gets(output: str, expected: list[Event], size: int) -> None:
    assert parse(output, size) == expected
