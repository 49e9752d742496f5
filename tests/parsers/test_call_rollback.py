"""Rejected calls become text again; white space around calls does not count as text."""

from __future__ import annotations

import pytest
from backedge.parsers.call_rollback import MAX_MARKUP, MAX_SPACE
from backedge.parsers.compiled_format import compile_format
from backedge.parsers.events import (
    Content,
    Event,
    ToolCallArguments,
    ToolCallCut,
    ToolCallStarted,
    join,
)
from backedge.parsers.format import Format, Jump, ReuseSuffix, State
from backedge.parsers.state_machine import LinearParser

FORMAT = Format(
    "test",
    {
        State.CONTENT: {"<call>": State.NAME},
        State.NAME: {"{": ReuseSuffix(State.ARGUMENTS)},
        State.ARGUMENTS: {"</call>": Jump.RETURN},
    },
    source="this test",
)
TABLE = compile_format(None, FORMAT, {})
CALL: list[Event] = [ToolCallStarted(0, "f"), ToolCallArguments(0, "{}")]
SPACE = " " * MAX_SPACE


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("a <call>f{}</call> b", [Content("a "), *CALL, Content(" b")]),
        ("<call>f {}</call>", CALL),
        ("<call>two words", [Content("<call>two words")]),
        ("<call>f", [Content("<call>f")]),
        ("<call>", [Content("<call>")]),
        (f"<call>{'f' * (MAX_MARKUP + 1)}", [Content(f"<call>{'f' * (MAX_MARKUP + 1)}")]),
        ("<call>a <call>f{}</call>", [Content("<call>a "), *CALL]),
        ("<call><call>f{}</call>", [Content("<call>"), *CALL]),
        ("<call>f{}</call>\n", CALL),
        (f"<call>f{{}}</call>{SPACE}b", [*CALL, Content(f"{SPACE}b")]),
        (f"{SPACE}<call>f{{}}</call>", CALL),
        (f"{SPACE} <call>f{{}}</call>", [Content(f"{SPACE} "), *CALL]),
        ("<call>f{}</call>\n<call>f", [*CALL, Content("\n<call>f")]),
        ("<call>f{", [ToolCallStarted(0, "f"), ToolCallArguments(0, "{"), ToolCallCut(0, "")]),
        ("<call>g{}</call>", [Content("<call>g{}</call>")]),
        ("<call>f or g{}</call>", [Content("<call>f or g{}</call>")]),
        ('<call>f"{}"</call>', [Content('<call>f"{}"</call>')]),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_what_a_client_gets(output: str, expected: list[Event], size: int) -> None:
    parser = LinearParser(TABLE, {"f": {}})
    events: list[Event] = []
    for start in range(0, len(output), size):
        events += parser.feed(output[start : start + size])
        assert parser.waiting <= MAX_SPACE + 2 * MAX_MARKUP
    assert join(events + parser.finish()) == expected


def test_a_call_that_has_begun_is_never_taken_back() -> None:
    parser = LinearParser(TABLE, {"f": {}})
    assert parser.feed("<call>f") == []
    assert parser.waiting == len("<call>f") + len("f")
    assert parser.feed("{") == [ToolCallStarted(0, "f"), ToolCallArguments(0, "{")]
    assert parser.waiting == 0
    assert parser.finish("nonsense")[0] != Content("nonsense")
