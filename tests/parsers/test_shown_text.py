"""Rejected calls become text again; white space around calls does not count as text."""

from __future__ import annotations

import pytest
from backedge.base.limits import MAX_MARKUP, MAX_SPACE
from backedge.parsers import shown_text
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
from backedge.parsers.held_back import HeldText
from backedge.parsers.machine import LinearParser
from backedge.parsers.shown_text import ShownText

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
        ("<call><call>f{}</call>", CALL),
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
        assert sum(part.length for part in parser.held) <= MAX_SPACE + 2 * MAX_MARKUP
    assert join(events + parser.finish()) == expected


def test_a_call_that_has_begun_is_never_taken_back() -> None:
    parser = LinearParser(TABLE, {"f": {}})
    assert parser.feed("<call>f") == []
    assert parser.held == [HeldText("possible call", "<call>f", len("<call>f"))]
    assert parser.feed("{") == [ToolCallStarted(0, "f"), ToolCallArguments(0, "{")]
    assert parser.held == []
    assert parser.finish("nonsense")[0] != Content("nonsense")


def test_a_rejected_guess_shows_its_opening_and_returns_the_rest() -> None:
    shown = ShownText({"f": {}}, "")
    shown.enter_text(State.START)
    shown.show(" ")
    assert shown.held_text == [HeldText("white space", " ", 1)]
    shown.leave_text("<call>")
    shown.enter_markup()
    shown.keep("f or g")
    assert shown.held_text == [HeldText("possible call", " <call>f or g", 13)]
    assert shown.reject() == "f or g"
    assert shown.calls.take() == [Content(" <call>")]
    assert shown.state is State.CONTENT


def test_too_much_that_was_rejected_is_text_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_text, "MAX_READ_AGAIN", 3)
    shown = ShownText({}, "")
    for again in ("ab", ""):
        shown.leave_text("<call>")
        shown.keep("ab")
        assert shown.reject() == again
    assert join(shown.calls.take()) == [Content("<call><call>ab")]


def test_a_started_call_is_what_was_guessed() -> None:
    shown = ShownText({"f": {}}, "")
    shown.leave_text("<call>")
    assert shown.is_guessing
    shown.start_call("f", None)
    assert not shown.is_guessing
    shown.complete_call()
    assert shown.calls.take() == CALL


def test_messages_of_one_kind_are_separated() -> None:
    shown = ShownText({}, "\n")
    for text in ("a", "b"):
        shown.begin_message(State.CONTENT)
        shown.enter_text(State.CONTENT)
        assert shown.plain is None
        shown.show(text)
        assert shown.plain is Content
    assert join(shown.calls.take()) == [Content("a\nb")]
