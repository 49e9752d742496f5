"""The frame of a call: doubled markers count once, words in front of it are text."""

from __future__ import annotations

import pytest
from backedge.parsers.events import (
    Content,
    Event,
    ToolCallArguments,
    ToolCallMalformed,
    ToolCallStarted,
    join,
)
from backedge.parsers.format import State
from backedge.parsers.parser_lookup import tool_format
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.event_outcome import read_shown
from tests.parsers.families.family import Family, Invocation
from tests.parsers.fuzzing import fuzz
from tests.slips.outcome import Class, classify
from tests.slips.slips import PAIRS, split, write
from tests.slips.systems import WRITERS, find_parsers, read
from tests.slips.test_properties import read_text

every_family = pytest.mark.parametrize("family", WRITERS, ids=[family.name for family in WRITERS])
# Prose: it begins with a letter or a digit, and has no markup.
WORDS = st.from_regex(r"[A-Za-z0-9Äé世][a-zA-Z0-9äé世 ,.!?'\-()\n]{0,60}", fullmatch=True)
# Markers that are a part of longer ones or of a value: doubled, they leave the call open or text.
PARTS = {
    *("｜DSML｜", "｜GCML｜", "<escape>", '<|"|>', "]<]minimax[>["),
    *("<|open|>", "<|close|>", "<|sep|>"),
    *("<|plamo:begin_", "<|plamo:end_", ":plamo|>"),
}


def find_section(family: Family) -> str:
    """Return the marker of the section in which the family's calls stand; "" without one."""
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    if family.name == "kimi_k3":
        return "<|open|>tools<|sep|>"  # its header determines what it opens
    output = write(family, PAIRS[0])
    opening = (
        marker
        for state in (State.CONTENT, State.START)
        for marker, target in format_.states.get(state, {}).items()
        if target is State.TOOL_SECTION and marker in output
    )
    return max(opening, key=len, default="")


# Without sections that are ordinary text, and tags whose attributes follow.
SECTIONS = {
    family.name: section
    for family in WRITERS
    if (section := find_section(family)) and family.name not in {"minicpm5", "phi4_mini_json"}
}


@every_family
def test_a_marker_that_is_doubled_in_front_of_arguments_counts_once(family: Family) -> None:
    parsers = find_parsers("ours", family)
    assert parsers is not None
    calls = PAIRS[0]
    pieces = split(family, write(family, calls))
    first_value = next(at for at, piece in enumerate(pieces) if "alpha" in piece)
    markers = {*family.markers, *family.special} - PARTS
    for at, piece in enumerate(pieces[:first_value]):
        # One that ends right in front of a value is its beginning.
        if piece in markers and at != first_value - 1:
            doubled = "".join([*pieces[:at], piece, *pieces[at:]])
            assert classify(read(parsers, family, doubled), calls) is Class.RIGHT, doubled


def test_sections_are_found() -> None:
    assert len(SECTIONS) >= 22
    assert {"hy_v3", "dots", "step3", "k2_horizon", "kimi_k2", "minimax_m2"} <= SECTIONS.keys()
    assert {"deepseek_v3", "deepseek_v31", "deepseek_v32", "gigachat35"} <= SECTIONS.keys()


@pytest.mark.parametrize("name", SECTIONS)
@fuzz(10)
@given(words=WORDS, calls=st.sampled_from(PAIRS))
def test_words_in_front_of_the_first_call_of_a_section_are_text(
    name: str, words: str, calls: tuple[Invocation, Invocation]
) -> None:
    family = next(family for family in WRITERS if family.name == name)
    parsers = find_parsers("ours", family)
    assert parsers is not None
    output, opening = write(family, calls), SECTIONS[name]
    events = read(parsers, family, output.replace(opening, opening + words, 1))
    assert classify(events, calls) is Class.RIGHT
    assert read_shown(events).text.strip() == words.strip()
    if name != "kimi_k3":  # where only the calls in it are markup
        # Without a call the model was writing about the marker.
        mentioned = f"The marker {opening}{words} is one."
        assert join(read(parsers, family, mentioned)) == [Content(mentioned)]


def find_head(family: Family, name: str, output: str) -> str:
    """Return what the family writes in front of a call's arguments; "" if no marker is in it."""
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    assert format_.spelling is not None
    head = format_.spelling.call.partition("{arguments}")[0].replace("{name}", name)
    found = [
        spelt
        for index in "01"
        for head_ in (head.replace("{{", "{").replace("{index}", index),)
        for spelt in (head_, head_.strip())
        if spelt in output
    ]
    assert found, head
    # JSON within JSON, and a call within a call, are no doubled tags.
    return "" if found[0].startswith("{") or found[0].endswith("(") else found[0]


# Their frame is a header or has a mark that values have, too: such a call is text, or stays open.
UNREAD = {"beam", "muse_glimmer"}
# The last tag of its frame is text of the value without the prefix that a tag has.
TAG_IN_VALUE = "minimax_m3"


@pytest.mark.parametrize("calls", PAIRS)
@every_family
def test_a_doubled_frame_is_no_call_of_its_own(
    family: Family, calls: tuple[Invocation, Invocation]
) -> None:
    parsers = find_parsers("ours", family)
    assert parsers is not None
    output = write(family, calls)
    if head := find_head(family, calls[0][0], output):
        for text in (output.replace(head, head + head, 1), output.replace(head, f"{head}\n{head}")):
            for events in (read(parsers, family, text), read_text(family, text, 3)):
                class_ = classify(events, calls)
                is_read = family.name == TAG_IN_VALUE and len(read_shown(events).names) == len(
                    calls
                )
                assert (
                    class_ is Class.RIGHT
                    or is_read
                    or (family.name in UNREAD and class_ is not Class.WRONG)
                )


OBJECT = '{{"name": "remove", "arguments": {{"path": "{}"}}'
TAGS = '<function name="remove"><param name="path">{}</param>'


@pytest.mark.parametrize(
    ("name", "unended", "end"),
    [
        ("hermes", f"<tool_call>{OBJECT}\n", "}</tool_call>"),
        ("jamba", f"<tool_calls>[{OBJECT}}}}}", "]</tool_calls>"),
        ("longcat", f"<longcat_tool_call>{OBJECT}\n", "}</longcat_tool_call>"),
        ("minicpm5", TAGS, "</function>"),
    ],
)
def test_a_call_without_its_end_does_not_swallow_the_next_one(
    name: str, unended: str, end: str
) -> None:
    family = next(family for family in WRITERS if family.name == name)
    parsers = find_parsers("ours", family)
    assert parsers is not None
    events = read(parsers, family, unended.format("P") + unended.format("Q") + end)
    assert [event.name for event in events if isinstance(event, ToolCallStarted)] == ["remove"] * 2
    sent = [event.text for event in events if isinstance(event, ToolCallArguments)]
    assert ["P" in text for text in sent] == [True, False]
    assert not any(isinstance(event, ToolCallMalformed) for event in events)


def read_both(family: Family, output: str) -> list[list[Event]]:
    """Return what a client gets by tokens, and if no marker is one."""
    parsers = find_parsers("ours", family)
    assert parsers is not None
    return [list(read(parsers, family, output)), read_text(family, output, 3)]


def test_after_words_a_name_without_a_token_is_a_declared_one() -> None:
    family = next(family for family in WRITERS if family.name == "gemma4")
    output = '<|tool_call>call{search:limit:5,query:<|"|>beta<|"|>}'
    for events in read_both(family, output + "<tool_call|>"):
        assert read_shown(events).names == []
        assert read_shown(events).text.strip().removesuffix("<tool_call|>") == output
