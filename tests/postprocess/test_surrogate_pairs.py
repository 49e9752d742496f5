"""Text that leaves post-processing is well-formed, however it is cut."""

import json

import msgspec
import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallStarted,
    join,
)
from backedge.postprocess.delta_builder import DeltaBuilder, aggregate_deltas
from backedge.postprocess.surrogate_pairs import MAX_HALF, mend_json, mend_part, mend_text
from hypothesis import given
from hypothesis import strategies as st

SMILE, HIGH, LOW, LOST = "\U0001f600", "\ud83d", "\ude00", "\ufffd"
TEXTS = {
    "": "",
    "plain é世" + SMILE: "plain é世" + SMILE,
    HIGH + LOW: SMILE,
    HIGH: LOST,
    LOW: LOST,
    LOW + HIGH: LOST * 2,
    HIGH + HIGH + LOW + LOW: LOST + SMILE + LOST,
    "a" + HIGH + "b" + LOW + "c": f"a{LOST}b{LOST}c",
    SMILE + HIGH + SMILE: SMILE + LOST + SMILE,
}
JSON = {
    r"\ud83d\ude00": r"\ud83d\ude00",
    r"\uD83D\uDE00": r"\uD83D\uDE00",
    r"\ud83d": r"\ufffd",
    r"\ude00": r"\ufffd",
    r"\ude00\ud83d": r"\ufffd\ufffd",
    r"\ud83d\ud83d\ude00": r"\ufffd\ud83d\ude00",
    r"\ud83d\u0041": r"\ufffd\u0041",
    r"\ud83d\n": r"\ufffd\n",
    r"\ud83d x \ude00": r"\ufffd x \ufffd",
    r"\\ud83d": r"\\ud83d",
    r"\\\ud83d": r"\\\ufffd",
    r"\\\\ud83d\\": r"\\\\ud83d\\",
    r"\"\ud83d\"": r"\"\ufffd\"",
    r"\ud83": r"\ud83",
    r"\ud83d\ude0": r"\ufffd\ude0",
    r"\u00e9\/\b": r"\u00e9\/\b",
    "\\ud83d" + LOW: r"\ufffd" + LOST,
    HIGH + r"\ude00": LOST + r"\ufffd",
    "\\" + HIGH + LOW: "\\" + SMILE,
    "\\u" * 5: "\\u" * 5,
}


@pytest.mark.parametrize(("text", "mended"), TEXTS.items(), ids=ascii)
def test_text(text, mended):
    assert mend_text(text) == mended
    assert mend_json(text) == mended


@pytest.mark.parametrize(("text", "mended"), JSON.items(), ids=ascii)
def test_json(text, mended):
    assert mend_json(text) == mended


PARTS = st.sampled_from(
    [HIGH, LOW, SMILE, "\\", "u", "d83d", "de00", "d8", "3", "0041", '"', "é", r"\ud83d", r"\ude00"]
)


@given(pieces=st.lists(st.lists(PARTS, min_size=1, max_size=4).map("".join), max_size=8))
@pytest.mark.parametrize("is_json", [False, True])
def test_any_cut_gives_the_same(is_json, pieces):
    mend = mend_json if is_json else mend_text
    mended, held = "", ""
    for piece in pieces:
        part, held = mend_part(held + piece, is_json=is_json)
        mended += part
        assert len(held) <= MAX_HALF
    assert mended + mend(held) == mend("".join(pieces))


TEXT = st.lists(PARTS, min_size=1, max_size=3).map("".join)
EVENTS = st.one_of(
    TEXT.map(Content),
    TEXT.map(Reasoning),
    TEXT.map(lambda text: ToolCallArguments(0, text)),
    st.just(ToolCallStarted(0, "f" + HIGH, LOW)),
)


@given(events=st.lists(EVENTS, max_size=10), takes=st.lists(st.booleans(), min_size=10))
def test_deltas_say_what_the_events_say_however_often_they_are_taken(events, takes):
    builder, number, deltas = DeltaBuilder(0, ParserRequest()), -1, []
    said: list[Event] = []
    written: list[Event] = []
    for event, is_taken in zip(events, takes, strict=False):
        number += isinstance(event, ToolCallStarted)
        if isinstance(event, ToolCallStarted):  # one without arguments would get empty ones
            said = [ToolCallStarted(number, event.name), ToolCallArguments(number, "[")]
        elif isinstance(event, ToolCallArguments):
            said = [ToolCallArguments(number, event.text)] if number >= 0 else []
        else:
            said = [event]
        for part in said:
            builder.write(part)
        written += said
        deltas += builder.take() if is_taken else []
    builder.finish("stop", None, cut=True)
    deltas += builder.take()
    assert said_in_deltas(deltas) == [mend_event(event) for event in join(written)]


def mend_event(event):
    if isinstance(event, ToolCallStarted):
        return f"name of {event.index}", "f" + LOST
    if isinstance(event, ToolCallArguments):
        return event.index, mend_json(event.text)
    return event.__class__, mend_text(event.text)


def said_in_deltas(deltas):
    """What deltas say, in order: (kind or call, text), neighbours of one kind joined."""
    said: list[tuple[object, str]] = []
    for delta in deltas:
        msgspec.json.encode(delta)
        parts: list[tuple[object, str | None]] = [
            (Content, delta.delta.content),
            (Reasoning, delta.delta.reasoning_content),
        ]
        for call in delta.delta.tool_calls or ():
            parts += [(f"name of {call.index}", call.function.name)]
            parts += [(call.index, call.function.arguments)]
        for of, text in parts:
            if not text:
                continue
            if said and said[-1][0] == of:
                said[-1] = of, said[-1][1] + text
            else:
                said.append((of, text))
    return said


@pytest.mark.parametrize("taken", [True, False], ids=["taken between", "at once"])
def test_two_halves_in_two_deltas_are_one_character(taken):
    builder = DeltaBuilder(0, ParserRequest())
    deltas = []
    for text in ("a" + HIGH, LOW, HIGH, LOW + HIGH):
        builder.write(Content(text))
        deltas += builder.take() if taken else []
    builder.finish("stop", None, cut=False)
    deltas += builder.take()
    assert aggregate_deltas(deltas).delta.content == f"a{SMILE}{SMILE}{LOST}"
    assert all(delta.delta.content for delta in deltas)


def test_the_arguments_of_a_call_stay_json():
    builder = DeltaBuilder(0, ParserRequest(tools=[{}], tool_choice="auto"))
    builder.write(ToolCallStarted(0, "f" + HIGH))
    for piece in ('{"a": "\\ud8', '3d", "b": "', HIGH, '"}'):
        builder.write(ToolCallArguments(0, piece))
    builder.finish("stop", None, cut=False)
    [delta] = builder.take()
    [call] = delta.delta.tool_calls
    assert call.function.name == "f" + LOST
    assert json.loads(call.function.arguments) == {"a": LOST, "b": LOST}
