"""What models wrote and clients got wrong, sighting by sighting: before, and now.

Before: what the parsers made of it while they guessed, seen on that code. Sighting 14, the names of
parsers, is in tests/parsers/test_parser_lookup.py; 15 in tests/conformance; 21, forced calls, in
tests/parsers/test_forced_calls.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from backedge.parsers.base import ParserNames
from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallMalformed,
    ToolCallStarted,
)

from tests.parsers import driver
from tests.parsers.families.family import function

TOOLS = [
    function("f", path="string", n="integer", city="string", tags="array", x="string"),
    function("g", x="string", n="integer", a="string"),
    function("search", query="string", limit="integer"),
    function("special_function", arg1="integer"),
    function("command", range={"type": "array", "enum": ["view", "copy"]}),
]
# Markers that are tokens here; the others are spelled in ordinary ones.
TOKENS = re.compile(
    r"(<\|\w+\|>|<｜tool▁(?:calls?▁(?:begin|end)|sep)｜>"
    r"|</?tool_calls?>|<tool_sep>|</?arg_(?:key|value)>)"
)


class Sighting(NamedTuple):
    """An output, and what a client gets of it: texts, thoughts and calls, which may be open."""

    number: int
    tool_parser: str
    reasoning_parser: str | None
    output: str
    before: list[str]
    now: list[str]


SIGHTINGS = [
    Sighting(**json.loads(line))
    for line in Path(__file__).with_name("sightings.jsonl").read_text("utf-8").splitlines()
]
# Calls of a server's own tools are in no answer, a key without its end left the call open, hermes
# dropped one brace too many, and gemma4's 42 was text already. By decision 0010 a call repeated
# after its end is text, as is a call that never began.
UNCHANGED = {
    *((6, "openai"), (11, "hermes"), (23, "gemma4")),
    *((24, "lfm2"), (24, "hermes")),
}
# The sighting of requests without tools, and that of answers that a limit cut.
WITHOUT_TOOLS, CUT = 18, 16


def describe(events: list[Event]) -> list[str]:
    """Return texts, thoughts and calls in their order."""
    shown: list[str] = []
    calls: dict[int | None, int] = {}
    for event in events:
        match event:
            case Content(text):
                shown.append(repr(text))
            case Reasoning(text):
                shown.append(f"thought {text!r}")
            case ToolCallStarted(index, name):
                calls[index] = len(shown)
                shown.append(f"{name} ")
            case ToolCallArguments(index, text):
                shown[calls[index]] += text
            case ToolCallMalformed(index) | ToolCallCut(index) if index in calls:
                shown[calls[index]] = "open " + shown[calls[index]].removeprefix("open ")
    return shown


def read(sighting: Sighting, size: int) -> list[str]:
    """Return what a client gets, fed in tokens and in pieces of `size` characters."""
    ids = {marker: id_ for id_, marker in enumerate(set(TOKENS.findall(sighting.output)), 1)}
    names = ParserNames(sighting.tool_parser, sighting.reasoning_parser)
    tools: list[Any] = [] if sighting.number == WITHOUT_TOOLS else TOOLS
    is_cut = sighting.number == CUT
    return describe(driver.read(names, sighting.output, size, ids=ids, tools=tools, cut=is_cut))


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("sighting", SIGHTINGS, ids=lambda row: f"{row.number}-{row.tool_parser}")
def test_what_a_client_gets(sighting: Sighting, size: int) -> None:
    assert read(sighting, size) == sighting.now


SLIPS = "slips/test_properties.py::test_nothing_is_invented"
VALUES = "parsers/test_typed_values.py"
FRAMES = "parsers/test_frames_of_calls.py"
WORDS_IN_FRONT = f"{FRAMES}::test_words_in_front_of_the_first_call_of_a_section_are_text"
# By sighting, the test over all formats concerned that finds its class.
PROPERTIES = {
    1: "parsers/test_malformed_calls.py::test_a_call_with_slips_is_json_or_open_however_it_is_cut",
    2: "slips/test_properties.py::test_a_value_without_its_end_loses_nothing_and_is_not_complete",
    3: SLIPS,
    4: "slips/test_properties.py::test_a_value_that_mentions_its_end_loses_nothing",
    5: WORDS_IN_FRONT,
    6: "slips/test_answers.py::test_a_slip_with_a_marker_loses_no_word",
    7: SLIPS,
    8: f"{FRAMES}::test_a_doubled_frame_is_no_call_of_its_own",
    9: "parsers/test_swallowed_markup.py::test_marks_in_a_value_are_no_markup",
    10: "parsers/test_generated.py::test_exact_meaning",
    11: "parsers/test_families.py::test_an_end_that_is_doubled_is_not_shown",
    12: "parsers/test_considered_call.py::test_a_call_in_a_thought_that_ends_was_a_thought",
    13: "parsers/test_linear_cost.py::test_each_marker",
    14: "parsers/test_parser_lookup.py::test_an_unknown_name_says_what_is_near",
    15: "conformance/test_conformance.py::test_goldens",
    16: "slips/test_answers.py::test_a_json_answer_is_text_wherever_it_is_cut",
    17: f"{VALUES}::test_the_value_read_is_the_value_written",
    18: "parsers/test_channels.py::test_headers_are_not_shown",
    19: SLIPS,
    20: WORDS_IN_FRONT,
    21: "parsers/test_forced_calls.py::test_the_model_s_markers_in_strings_are_text",
    22: f"{VALUES}::test_text_after_a_container_is_not_dropped",
    23: f"{VALUES}::test_a_scalar_has_the_declared_type_in_every_format",
    24: "postprocess/test_space_before_calls.py::"
    "test_only_the_line_breaks_of_the_template_are_dropped",
}


def test_each_sighting_has_a_property() -> None:
    assert set(PROPERTIES) == {*range(1, 25)}
    for test in PROPERTIES.values():
        path, _, name = test.partition("::")
        source = (Path(__file__).parents[1] / path).read_text(encoding="utf-8")
        assert f"def {name}(" in source


def test_each_sighting_has_a_case() -> None:
    elsewhere = {14, 15, 21}
    assert {sighting.number for sighting in SIGHTINGS} == {*range(1, 25)} - elsewhere
    same = {(number, name) for number, name, _, _, before, now in SIGHTINGS if before == now}
    assert same == UNCHANGED
