"""Bare keys and values are read up to their delimiters and typed by the schema, at any cut."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection
from typing import Any

import pytest
from backedge.base.limits import MAX_WORD
from backedge.parsers.arguments.incremental_grammar import Status
from backedge.parsers.arguments.marked_object import MarkedObject
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.events import ToolCallArguments, ToolCallMalformed
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.arguments.reading import read_through

MARK = '<|"|>'
PROPERTIES: dict[str, Any] = {
    "zip": {"type": "string"},
    "n": {"type": "integer"},
    "any": {},
    "o": {
        "type": "object",
        "properties": {"z": {"type": "string"}, "l": {"items": {"type": "string"}}},
    },
}
PARAMETERS = {"f": {"type": "object", "properties": PROPERTIES}}
cuts = st.sets(st.integers(1, 60), max_size=12)


def read(text: str, cuts: Collection[int] = ()) -> str:
    """Return the arguments of `text`, fed in pieces; what it holds back is bounded."""
    return read_events(text, cuts)[0]


def read_events(text: str, cuts: Collection[int] = ()) -> tuple[str, bool]:
    """Return the arguments of `text`, and whether they are malformed."""
    calls = ToolCallEmitter(PARAMETERS)
    calls.start("f")
    grammar = MarkedObject(calls, (MARK,))
    positions = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    held = ""
    for start, end in itertools.pairwise(positions):
        held = read_through(grammar, held + text[start:end])
        assert len(held) <= MAX_WORD + 1
        if grammar.status is Status.DONE:
            break
    while held and grammar.status is not Status.DONE:
        position = grammar.read(held, final=True)
        if position < len(held) and grammar.status in (Status.MORE, Status.UNEXPECTED):
            grammar.take_unexpected(held[position])
            position += 1
        held = held[position:]
    if grammar.status is not Status.DONE:
        grammar.close()
    written = "".join(event.text for event in calls.events if isinstance(event, ToolCallArguments))
    return written, any(isinstance(event, ToolCallMalformed) for event in calls.events)


EXAMPLES = [
    ("{zip:12345,n:007,any:12345}", {"zip": "12345", "n": 7, "any": 12345}),
    ("{zip:True,any:True}", {"zip": "True", "any": True}),
    ('{"zip": 5, "n": 3}', {"zip": "5", "n": 3}),
    (f"{{{MARK}zip{MARK}:5}}", {"zip": "5"}),
    (f"{{zip:{MARK}x{MARK}any:{MARK}y{MARK}}}", {"zip": "x", "any": "y"}),
    ("{any:[1,2] n:3}", {"any": [1, 2], "n": 3}),
    ("{n:1 zip:02134}", {"n": 1, "zip": "02134"}),
    ("{zip:12:30 pm}", {"zip": "12:30 pm"}),
    ("{a b:1,/v1:2,x/y z : 3}", {"a b": 1, "/v1": 2, "x/y z": 3}),
    ("{any:New York,n:1}", {"any": "New York", "n": 1}),
    (f"{{o:{{z:5,l:[1,{MARK}a{MARK}]}},n:5}}", {"o": {"z": "5", "l": ["1", "a"]}, "n": 5}),
    ("{zip:5", {"zip": "5"}),
    ("{}", {}),
    (f"{{{'k' * 300}:1}}", {"k" * 300: 1}),
    (f"{{any:{'v' * 300}}}", {"any": "v" * 300}),
    (f"{{zip:{MARK}say {MARK}hi{MARK} now{MARK}}}", {"zip": f"say {MARK}hi{MARK} now"}),
    (f"{{zip:{MARK}a {MARK}b{MARK}, c{MARK},n:3}}", {"zip": f"a {MARK}b{MARK}, c", "n": 3}),
    (f"{{zip:{MARK}{MARK}x{MARK}{MARK},n:3}}", {"zip": "x", "n": 3}),
    (f"{{zip:{MARK}{MARK},n:3}}", {"zip": "", "n": 3}),
    (f"{{any:[{MARK}a{MARK}{MARK}b{MARK} {MARK}c{MARK}]}}", {"any": ["a", "b", "c"]}),
    (f"{{{MARK}zip{MARK}:{MARK}x{MARK},{MARK}n{MARK}:3}}", {"zip": "x", "n": 3}),
    (f"{{zip:{MARK}x{MARK}", {"zip": "x"}),
]


@pytest.mark.parametrize(("text", "value"), EXAMPLES, ids=lambda text: str(text)[:40])
@given(cuts=cuts)
def test_an_object_is_read(text: str, value: object, cuts: set[int]) -> None:
    assert json.loads(read(text, cuts)) == value
    assert json.loads(read(text, range(len(text)))) == value


@given(words=st.lists(st.from_regex(r"[a-z]{1,4}", fullmatch=True), min_size=1, max_size=4),
       cuts=cuts)  # fmt: skip
def test_pairs_of_marks_in_a_string_are_its_text(words: list[str], cuts: set[int]) -> None:
    text = "say " + " and ".join(f"{MARK}{word}{MARK}" for word in words) + " now"
    assert json.loads(read(f"{{zip:{MARK}{text}{MARK},n:3}}", cuts)) == {"zip": text, "n": 3}


@pytest.mark.parametrize(
    "text",
    [
        f"{{zip:{MARK}a {MARK}b{MARK},n:3}}",  # half a pair
        f"{{zip:{MARK}a,{MARK}n:3}}",  # the comma and the mark are swapped
        "{n:23any:x}",  # no comma
    ],
)
def test_a_guess_about_marks_leaves_the_call_open(text: str) -> None:
    assert read_events(text)[1]


@given(text=st.text("{}[](),:'\"\\ \nzip01-." + MARK, max_size=50), cuts=cuts)
def test_any_text_is_json_or_malformed_however_it_is_cut(text: str, cuts: set[int]) -> None:
    whole, is_malformed = read_events("{" + text)
    if not is_malformed:
        json.loads(whole)
    assert read("{" + text, cuts) == whole
    assert read("{" + text, range(len(text) + 1)) == whole


scalars = st.integers() | st.booleans() | st.from_regex(r"[a-z]{2,8}( [a-z]{2,8})?", fullmatch=True)


@given(
    members=st.dictionaries(st.from_regex(r"[a-z/][a-z /]{0,6}[a-z]", fullmatch=True), scalars,
                            max_size=4), cuts=cuts)  # fmt: skip
def test_bare_members_are_read(members: dict[str, Any], cuts: set[int]) -> None:
    members.pop("zip", None)
    words = {key: json.dumps(value).strip('"') for key, value in members.items()}
    text = "{" + ",".join(f"{key}:{word}" for key, word in words.items()) + "}"
    expected = {
        key: None if value == "null" else value in ("true", True) if value in ("true", "false")
        else value for key, value in members.items()
    }  # fmt: skip
    assert json.loads(read(text, cuts)) == expected
