"""What is no call in a section or a list costs itself alone: the calls beside it are complete.

Its words are shown, as those in front of a section's first call are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from backedge.parsers.events import Event
from backedge.parsers.parser_lookup import tool_format

from tests.parsers.families.family import Family, Invocation
from tests.slips.outcome import Class, classify, differs_without_stream, find_words, read_shown
from tests.slips.slips import PAIRS, write
from tests.slips.systems import WRITERS, find_parsers, read
from tests.slips.test_properties import read_text

every_family = pytest.mark.parametrize("family", WRITERS, ids=[family.name for family in WRITERS])
BY_NAME = {family.name: family for family in WRITERS}
# A call whose name is taken out.
BAD: Invocation = ("zzz", {"path": "omega"})
# By kind, what stands in a list in place of an object, and of a Python call.
OBJECTS = {
    "null": "null",
    "a number": "5",
    "an empty object": "{}",
    "a string": '"omega"',
    "a list": "[5]",
    "an object without a name": '{"arguments": {"path": "omega"}}',
    "words": "omega omega",
    "another object": '{"city": "omega"}',
}
PYTHON = {
    "a number": "5",
    "a string": '"omega"',
    "an object": '{"a": "omega"}',
    "an expression": "omega(5 + x)",
    "words": "omega omega",
}
# Without a marker in front of it, the answer begins with text, or has a key that no call has.
ANSWERS = {
    ("llama3_json", 0): OBJECTS.keys() - {"an empty object", "an object without a name"},
    # Its calls need no list: whatever is no object ends them.
    ("llama3_json", 1): OBJECTS.keys() - {"an empty object", "an object without a name"}
    - {"another object"},
    ("xlam", 0): {"words", "another object"},
    ("pythonic", 0): {"words", "an object"},
}  # fmt: skip
# The name of a function that is not declared.
CALLS = {("apertus", "an object without a name"), ("longcat", "null")}
# The choice between JSON and Python falls with the first brace.
CALLS_OF_JSON = {("lfm2", "an object", 0)}


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
    if (call := re.search(rf"{BAD[0]}\([^)]*\)", whole)) is not None:
        others, start, end = PYTHON, call.start(), call.end()
    elif spelling_of(family).lstrip().startswith("{") or '{"name": "{name}"' in spelling_of(family):
        start = whole.rindex("{", 0, at)
        others, end = OBJECTS, json.JSONDecoder().raw_decode(whole, start)[1]
    else:
        return outputs | dict(in_frame(family, whole, at))
    answers = ANSWERS.get((family.name, position), set())
    return outputs | {
        kind: whole[:start] + other + whole[end:]
        for kind, other in others.items()
        if kind not in answers
        and (family.name, kind) not in CALLS
        and (family.name, kind, position) not in CALLS_OF_JSON
    }


def in_frame(family: Family, whole: str, at: int) -> Iterator[tuple[str, str]]:
    """Yield outputs with other text between the markers of the call whose name is at `at`."""
    begin = spelling_of(family).partition("{name}")[0].strip()
    end = spelling_of(family).partition("{arguments}")[2].strip().removeprefix("}")
    if not begin or not end or begin.endswith('tool="'):
        return  # messages, whose headers tell what is no call
    start, stop = whole.rindex(begin, 0, at), whole.index(end, at)
    yield "an empty frame", whole[:start] + begin + whole[stop:]
    yield "words", f"{whole[:start]}{begin}omega omega{whole[stop:]}"


def readings(family: Family, output: str) -> Iterator[list[Event]]:
    """Yield what a client gets by tokens, and where no marker is one, cut in pieces."""
    parsers = find_parsers("ours", family)
    assert parsers is not None
    yield list(read(parsers, family, output))
    yield read_text(family, output, 1 << 20)
    yield read_text(family, output, 3)


CASES = [
    (family.name, position, kind, output)
    for family in WRITERS
    for position in range(3)
    for kind, output in bad_outputs(family, position, PAIRS[0]).items()
]


def test_every_format_has_cases() -> None:
    assert {name for name, *_ in CASES} == set(BY_NAME)
    assert len(CASES) > 600


@pytest.mark.parametrize("position", range(3), ids=["first", "between", "last"])
@every_family
def test_both_calls_beside_no_call_are_complete(family: Family, position: int) -> None:
    for kind, output in bad_outputs(family, position, PAIRS[position]).items():
        for events in readings(family, output):
            assert classify(events, PAIRS[position]) is Class.RIGHT, (kind, output, events)
            shown = find_words([read_shown(events).text])
            assert shown.count("omega") == output.count("omega"), (kind, output, events)
            assert not differs_without_stream(events)
