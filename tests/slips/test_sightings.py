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
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallMalformed,
    ToolCallStarted,
    join,
)
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers

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
    *((6, "openai"), (11, "hermes"), (18, "openai"), (23, "gemma4")),
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
    request = ParserRequest(tools=tools, tool_choice="auto")
    parser = linear_parsers(names, Vocabulary(ids))(request, [])
    events: list[Event] = []
    for part in TOKENS.split(sighting.output):
        pieces = [part] if part in ids else re.findall(rf"(?s).{{1,{size}}}", part)
        for piece in pieces:
            events += parser.feed(piece, [ids.get(piece, 0)])
    return describe(join(events + parser.finish(cut=sighting.number == CUT)))


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("sighting", SIGHTINGS, ids=lambda row: f"{row.number}-{row.tool_parser}")
def test_what_a_client_gets(sighting: Sighting, size: int) -> None:
    assert read(sighting, size) == sighting.now


def test_each_sighting_has_a_case() -> None:
    elsewhere = {14, 15, 21}
    assert {sighting.number for sighting in SIGHTINGS} == {*range(1, 25)} - elsewhere
    same = {(number, name) for number, name, _, _, before, now in SIGHTINGS if before == now}
    assert same == UNCHANGED
