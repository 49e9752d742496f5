"""Any slips, in every format: nothing is invented; with one, no complete call has markup in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from backedge.base.json_types import JsonObject
from backedge.parsers.events import Event
from backedge.parsers.format import VALUE_STATES, State
from backedge.parsers.parser_lookup import tool_format
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers import driver
from tests.parsers.event_outcome import read_shown
from tests.parsers.families.family import Family, Invocation, function
from tests.parsers.fuzzing import fuzz
from tests.slips.outcome import Class, classify, differs_without_stream, find_words, read_object
from tests.slips.slips import CHANGES, DECLARED, PAIRS, TOOLS, apply, delimiters, split, write
from tests.slips.systems import WRITERS, find_parsers, read

every_family = pytest.mark.parametrize("family", WRITERS, ids=[family.name for family in WRITERS])
ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
TAG = re.compile(r"</?[\w:.|-]+>|<\|")


# A string between its marks may hold anything.
MARKED = {"functiongemma", "gemma4"}
FRAME_WORDS = {"function", "functions"}


def draw_output(data: st.DataObject, family: Family, slips: int) -> str:
    """Return two calls with so many slips."""
    pieces = split(family, write(family, data.draw(st.sampled_from(PAIRS))))
    for _ in range(slips):
        position = data.draw(st.sampled_from(delimiters(pieces)))
        pieces = apply(pieces, position, data.draw(st.sampled_from(CHANGES)))
    return "".join(pieces)


def read_text(
    family: Family, output: str, size: int, tools: Sequence[JsonObject] = TOOLS
) -> list[Event]:
    """Return what a client gets if no marker is a token, in pieces of `size` characters."""
    return driver.read(family.names, output, size, tools=tools)


def texts_of(value: Any) -> Iterator[str]:
    """Yield the keys and scalars of a value as text."""
    match value:
        case dict():
            for key, member in value.items():
                yield key
                yield from texts_of(member)
        case list():
            for item in value:
                yield from texts_of(item)
        case str():
            yield value
        case _:
            yield json.dumps(value)


def characters(text: str) -> str:
    """Return the letters and digits of a text."""
    return re.sub(r"[\W_]", "", text).lower()


def is_from(source: str, word: str) -> bool:
    """Whether a word is in the source, or two that stood beside a dropped marker are."""
    return any(word[:at] in source and word[at:] in source for at in range(len(word)))


def check(events: Sequence[Event], output: str, *, slips: int, is_strict: bool) -> None:
    """Check what a client gets of an output with so many slips.

    With one, a complete call has a declared name. is_strict: and neither a key that is not declared
        nor markup in a value. Two slips may make one good call of two, or another name.
    """
    shown = read_shown(events)
    source = characters(output)
    for index, (name, text) in enumerate(zip(shown.names, shown.arguments, strict=True)):
        arguments = read_object(text)
        sent = ESCAPE.sub(" ", text) if arguments is None else " ".join(texts_of(arguments))
        # A position's key in Python is the declared one; a number may stand in front of a word.
        assert all(is_from(source, part) for part in re.findall(r"[^\W\d_]+|\d+", sent.lower()))
        if arguments is None or index in shown.still_open:
            continue
        assert name in DECLARED or (slips > 1 and name not in FRAME_WORDS)
        if not is_strict:
            continue
        assert set(arguments) <= set(DECLARED.get(name, arguments))
        assert not TAG.search(sent)
    assert not differs_without_stream(events)


@every_family
@fuzz(10)
@given(data=st.data())
def test_nothing_is_invented(family: Family, data: st.DataObject) -> None:
    slips = data.draw(st.integers(1, 3))
    output = draw_output(data, family, slips)
    is_strict = slips == 1 and family.name not in MARKED
    parsers = find_parsers("ours", family)
    assert parsers is not None
    check(read(parsers, family, output), output, slips=slips, is_strict=is_strict)
    events = read_text(family, output, 1)
    check(events, output, slips=slips, is_strict=is_strict)
    assert read_text(family, output, 7) == events


@every_family
@fuzz(6)
@given(
    before=st.sampled_from(["use ", "use\n", ""]),
    after=st.sampled_from([" to end it", "\nand go on", "]>c"]),
)
def test_a_value_that_mentions_its_end_loses_nothing(
    family: Family, before: str, after: str
) -> None:
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    for end in sorted({end for state in VALUE_STATES for end in format_.states.get(state, ())}):
        value = before + end + after
        output = write(family, [("remove", {"path": value})])
        for events in (read_text(family, output, 1), read_text(family, output, 1000)):
            shown = read_shown(events)
            is_open = bool(shown.still_open) or read_object("".join(shown.arguments)) is None
            assert is_open or json.loads(shown.arguments[0]) == {"path": value}
            kept = " ".join([shown.text, *(ESCAPE.sub(" ", text) for text in shown.arguments)])
            assert set(find_words([before, after])) <= set(find_words([kept]))


@every_family
@fuzz(10)
@given(calls=st.sampled_from(PAIRS), data=st.data())
def test_a_value_without_its_end_loses_nothing_and_is_not_complete(
    family: Family, calls: tuple[Invocation, Invocation], data: st.DataObject
) -> None:
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    ends = {end for state in VALUE_STATES for end in format_.states.get(state, ()) if "/" in end}
    output = write(family, calls)
    if not (found := [match for end in ends for match in re.finditer(re.escape(end), output)]):
        return
    match = data.draw(st.sampled_from(found))
    slipped = output[: match.start()] + output[match.end() :]
    parsers = find_parsers("ours", family)
    assert parsers is not None
    for events in (read(parsers, family, slipped), read_text(family, slipped, 7)):
        assert classify(events, calls) in {Class.RIGHT, Class.OPEN, Class.TEXT}


HAS_CALL_OBJECTS = [
    family
    for family in WRITERS
    if (format_ := tool_format(family.tool_parser or "")) is not None
    and State.JSON_CALLS in format_.states
    and '"name": "remove"' in write(family, PAIRS[0])
]


@pytest.mark.parametrize("family", HAS_CALL_OBJECTS, ids=lambda family: family.name)
@pytest.mark.parametrize("key", ["arguments", "parameters"])
@pytest.mark.parametrize("missing", ["", "}"])
def test_a_call_object_as_arguments_is_open_only_without_a_brace(
    family: Family, key: str, missing: str
) -> None:
    """Without it the head may be doubled: then neither the outer nor the inner object is the call.

    Whole, it is JSON, and the client judges what it was meant to be.
    """
    inner = {"name": "remove", key: {"path": "alpha"}}
    output = write(family, [("remove", inner)]).replace("}}}", "}}}"[len(missing) :])
    parsers = find_parsers("ours", family)
    assert parsers is not None
    for events in (read(parsers, family, output), read_text(family, output, 3)):
        shown = read_shown(events)
        complete = {index for index, text in enumerate(shown.arguments) if read_object(text)}
        if missing:
            assert complete <= shown.still_open
        else:
            assert (complete - shown.still_open, json.loads(shown.arguments[0])) == ({0}, inner)
        assert "alpha" in " ".join([shown.text, *shown.arguments])


# Their section's end is the call's, too.
ENDS_AS_SECTION = {"muse_glimmer", "step3"}


@every_family
@pytest.mark.parametrize("more", [(), PAIRS[1][1:]], ids=["alone", "before another"])
def test_a_call_without_its_end_and_its_parameters_is_open(
    family: Family, more: tuple[Invocation, ...]
) -> None:
    """The end of all calls, or the next one, is not its own."""
    format_ = tool_format(family.tool_parser or "")
    assert format_ is not None
    after = format_.states.get(State.PARAMETERS, {})
    ends = [end for end, target in after.items() if target is State.TOOL_SECTION and "/" in end]
    output = write(family, [("search", {}), *more])
    found = [(output.find(end), end) for end in ends if end in output]
    if not found or family.name in ENDS_AS_SECTION:
        return
    at, end = min(found)
    slipped = output[:at] + output[at + len(end) :]
    parsers = find_parsers("ours", family)
    assert parsers is not None
    for events in (read(parsers, family, slipped), read_text(family, slipped, 4)):
        shown = read_shown(events)
        assert "search" in " ".join([shown.text, *shown.names])
        assert shown.names[:1] != ["search"] or 0 in shown.still_open


# Parameters are keywords in Python, and bare keys with space around them in Gemma's syntax.
WITHOUT_SPACE = {"lfm2", "olmo3", "pythonic", "functiongemma", "gemma4"}


@every_family
def test_a_declared_key_keeps_the_space_around_it(family: Family) -> None:
    if family.name in WITHOUT_SPACE:
        return
    arguments = {" a key": "x y", "n ": 5}
    tools = [function("keyed", **{" a key": "string", "n ": "integer"})]
    shown = read_shown(
        driver.read(family.names, write(family, [("keyed", arguments)]), tools=tools)
    )
    assert (shown.names, shown.still_open) == (["keyed"], set())
    assert json.loads(shown.arguments[0]) == arguments
