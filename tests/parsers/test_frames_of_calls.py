"""The frame of a call: doubled markers count once, words in front of it are text."""

from __future__ import annotations

import pytest
from backedge.parsers.events import (
    Content,
    ToolCallArguments,
    ToolCallMalformed,
    ToolCallStarted,
)

from tests.parsers.families.family import Family
from tests.slips.outcome import Class, classify, read_shown
from tests.slips.slips import PAIRS, split, write
from tests.slips.systems import WRITERS, find_parsers, read

every_family = pytest.mark.parametrize("family", WRITERS, ids=[family.name for family in WRITERS])
# Markers that are a part of longer ones or of a value: doubled, they leave the call open or text.
PARTS = {
    *("｜DSML｜", "｜GCML｜", "<escape>", '<|"|>', "]<]minimax[>["),
    *("<|open|>", "<|close|>", "<|sep|>"),
    *("<|plamo:begin_", "<|plamo:end_", ":plamo|>"),
}
# Sections, by format: what opens one, in which the first call's marker is due.
SECTIONS = {
    "deepseek_v3": "<｜tool▁calls▁begin｜>",
    "deepseek_v31": "<｜tool▁calls▁begin｜>",
    "deepseek_v32": "<｜DSML｜function_calls>",
    "deepseek_v4": "<｜DSML｜tool_calls>",
    "deepseek_v41": "<｜DSML｜ calls>",
    "dots": "<dots_function_call>",
    "gemma4": "<|tool_call>",
    "gigachat35": "<｜GCML｜tool_calls>",
    "hy_v3": "<tool_calls>",
    "internlm": "<|action_start|>",
    "k2_horizon": "<ifm|tool_calls>",
    "kimi_k2": "<|tool_calls_section_begin|>",
    "kimi_k3": "<|open|>tools<|sep|>",
    "lfm2": "<|tool_call_start|>",
    "minimax_m2": "<minimax:tool_call>",
    "minimax_m3": "]<]minimax[>[<tool_call>",
    "qwen3_coder": "<tool_call>",
    "seed_oss": "<seed:tool_call>",
    "step3": "<｜tool_calls_begin｜>",
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


@pytest.mark.parametrize("name", SECTIONS)
def test_words_in_front_of_the_first_call_of_a_section_are_text(name: str) -> None:
    family = next(family for family in WRITERS if family.name == name)
    parsers = find_parsers("ours", family)
    assert parsers is not None
    calls = PAIRS[0]
    output, opening = write(family, calls), SECTIONS[name]
    events = read(parsers, family, output.replace(opening, f"{opening}Now I look.", 1))
    assert classify(events, calls) is Class.RIGHT
    assert read_shown(events).text.strip() == "Now I look."
    if name != "kimi_k3":  # where only the calls in it are markup
        # Without a call the model was writing about the marker.
        mentioned = f"The marker {opening}words is one."
        assert read(parsers, family, mentioned) == [Content(mentioned)]


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("deepseek_v32", '<｜DSML｜invoke name="remove">'),
        ("dots", '<invoke name="remove">'),
        ("minimax_m2", '<invoke name="remove">'),
        ("muse_glimmer", '<atem:invoke name="remove">'),
        ("qwen3_coder", "<function=remove>"),
        ("step3", '<steptml:invoke name="remove">'),
    ],
)
def test_a_doubled_start_tag_is_no_call_of_its_own(name: str, head: str) -> None:
    family = next(family for family in WRITERS if family.name == name)
    parsers = find_parsers("ours", family)
    assert parsers is not None
    output = write(family, PAIRS[0])
    assert head in output
    events = read(parsers, family, output.replace(head, head + head, 1))
    assert classify(events, PAIRS[0]) is Class.RIGHT


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
