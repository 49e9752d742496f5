"""Text that leaves post-processing is well-formed, however it is cut."""

import json

import msgspec
import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.events import (
    Content,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallStarted,
    join,
)
from backedge.postprocess.aggregate import aggregate_deltas
from backedge.postprocess.delta_builder import DeltaBuilder
from backedge.postprocess.well_formed import EventMender, mend_json, mend_text
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
KINDS = {
    "content": Content,
    "reasoning": Reasoning,
    "arguments": lambda text: ToolCallArguments(0, text),
}


def mend(events):
    mender = EventMender()
    mended = [
        part
        for event in events
        for part in ([event] if mender.passes(event) else mender.mend(event))
    ]
    assert len(mender.held) <= 11
    return mended + mender.flush()


@given(pieces=st.lists(st.lists(PARTS, min_size=1, max_size=4).map("".join), max_size=8))
@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_gives_the_same(kind, pieces):
    whole = (mend_json if kind == "arguments" else mend_text)("".join(pieces))
    events = mend(map(KINDS[kind], pieces))
    assert join(events) == ([KINDS[kind](whole)] if whole else [])
    assert all(event.text for event in events)


EVENTS = st.one_of(
    *(st.lists(PARTS, min_size=1, max_size=3).map("".join).map(make) for make in KINDS.values()),
    st.just(ToolCallStarted(0, "f" + HIGH, LOW)),
    st.just(ToolCallCut(None, HIGH)),
)


@given(st.lists(EVENTS, max_size=10))
def test_a_half_does_not_wait_for_the_half_of_another_text(events):
    mended = join(mend(events))
    joined = join(events)
    assert [event.__class__ for event in mended] == [event.__class__ for event in joined]
    for before, after in zip(joined, mended, strict=True):
        msgspec.json.encode(after)
        if isinstance(before, ToolCallStarted):
            assert after == ToolCallStarted(0, "f" + LOST, LOST)
        else:
            mend_one = mend_json if isinstance(before, ToolCallArguments) else mend_text
            assert after == msgspec.structs.replace(before, text=mend_one(before.text))


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
