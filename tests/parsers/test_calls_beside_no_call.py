"""What is no call in a section costs itself alone: the calls beside it are complete.

Its words are shown, as those in front of a section's first call are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from backedge.parsers.events import Event
from backedge.parsers.parser_lookup import tool_format

from tests.parsers.event_outcome import read_shown
from tests.parsers.families.family import Family, Invocation
from tests.slips.outcome import Class, classify, differs_without_stream, find_words
from tests.slips.slips import PAIRS, write
from tests.slips.systems import WRITERS, find_parsers, read
from tests.slips.test_properties import read_text

# A call whose name is taken out.
BAD: Invocation = ("zzz", {"path": "omega"})
# By kind, what stands in place of a call object.
OBJECTS = {
    "an empty object": "{}",
    "an object without a name": '{"arguments": {"path": "omega"}}',
    "another object": '{"city": "omega"}',
}
# In a list what is no call ends the calls.
LISTS = {
    *("pythonic", "olmo3", "lfm2", "apertus", "cohere_command3", "granite", "nemotron_deci"),
    *("hunyuan_a13b", "jamba", "llama3_json", "phi4_mini_json", "xlam"),
    *("apriel", "openpangu_v2", "sarashina"),
}
# All marks of this format are special tokens, so words are glued where they were.
GLUED = {"solar_open2"}
FAMILIES = [family for family in WRITERS if family.name not in LISTS]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=[each.name for each in FAMILIES])


def spelling_of(family: Family) -> str:
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    assert format_.spelling is not None
    return format_.spelling.call


def bad_outputs(family: Family, position: int, calls: tuple[Invocation, ...]) -> dict[str, str]:
    """Return outputs of `calls` with something at `position` that is no call, by its kind."""
    around = [*calls[:position], BAD, *calls[position:]]
    whole = write(family, around)
    around[position] = (BAD[0], {})
    outputs = {
        "no name": whole.replace(BAD[0], ""),
        "nothing": write(family, around).replace(BAD[0], ""),
    }
    at = whole.index(BAD[0])
    spelling = spelling_of(family)
    if not spelling.lstrip().startswith("{") and '{"name": "{name}"' not in spelling:
        return outputs | dict(in_frame(family, whole, at))
    start = whole.rindex("{", 0, at)
    end = json.JSONDecoder().raw_decode(whole, start)[1]
    return outputs | {kind: whole[:start] + other + whole[end:] for kind, other in OBJECTS.items()}


def in_frame(family: Family, whole: str, at: int) -> Iterator[tuple[str, str]]:
    """Yield outputs with other text between the markers of the call whose name is at `at`."""
    begin = spelling_of(family).partition("{name}")[0].strip()
    end = spelling_of(family).partition("{arguments}")[2].strip().removeprefix("}")
    if not begin or not end or begin.endswith('tool="'):
        return  # messages, whose headers tell what is no call
    if "{index}" in begin:
        return  # the id in front of the name has no words for a client
    start, stop = whole.rindex(begin, 0, at), whole.index(end, at)
    yield "an empty frame", whole[:start] + begin + whole[stop:]
    gap = "\n" if begin[-1].isalnum() else ""
    yield "words", f"{whole[:start]}{begin}{gap}omega omega{whole[stop:]}"


def readings(family: Family, output: str) -> Iterator[list[Event]]:
    """Yield what a client gets by tokens, and where no marker is one, cut in pieces."""
    parsers = find_parsers("ours", family)
    assert parsers is not None
    yield list(read(parsers, family, output))
    yield read_text(family, output, 1 << 20)
    yield read_text(family, output, 3)


CASES = [
    (family.name, position, kind, output)
    for family in FAMILIES
    for position in range(3)
    for kind, output in bad_outputs(family, position, PAIRS[0]).items()
]


def test_every_format_has_cases() -> None:
    assert {name for name, *_ in CASES} == {family.name for family in FAMILIES}
    assert len(CASES) > 250


@pytest.mark.parametrize("position", range(3), ids=["first", "between", "last"])
@every_family
def test_both_calls_beside_no_call_are_complete(family: Family, position: int) -> None:
    for kind, output in bad_outputs(family, position, PAIRS[position]).items():
        for events in readings(family, output):
            assert classify(events, PAIRS[position]) is Class.RIGHT, (kind, output, events)
            shown = find_words([read_shown(events).text])
            glued = family.name in GLUED
            assert glued or shown.count("omega") == output.count("omega"), (kind, output, events)
            assert not differs_without_stream(events)
