"""Bounds, by format, the outputs with slips in which a complete call was never meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.parsers.events import (
    Content,
    ToolCallArguments,
    ToolCallMalformed,
    ToolCallStarted,
)

from tests.parsers.families.family import Family, Invocation
from tests.slips.__main__ import DIFFERS, count, total
from tests.slips.outcome import Class, classify, classify_slip
from tests.slips.slips import PAIRS, write
from tests.slips.systems import WRITERS, find_parsers, read

# Percent of a format's outputs.
MOST_WRONG = 3
# Words that are nowhere, or glued to others by a mark that is missing.
MOST_LOST = 3
# All marks of this format are special tokens, which no text shows.
GLUED = {"solar_open2": 27}
# Percent of a format's outputs of which both calls are right, at least.
LEAST_RIGHT = {"hermes": 28, "llama3_json": 25, "xlam": 25, "openai": 35, "mistral": 25}
MEANT: tuple[Invocation, ...] = (("remove", {"path": "alpha"}),)
every_family = pytest.mark.parametrize("family", WRITERS, ids=[family.name for family in WRITERS])


def call(name: str, arguments: Any, *more: Any) -> list[Any]:
    return [ToolCallStarted(0, name), ToolCallArguments(0, json.dumps(arguments)), *more]


@every_family
def test_few_calls_are_complete_that_were_not_meant_and_many_are_right(family: Family) -> None:
    counts = count("ours", family)
    assert counts is not None
    outputs = total(counts)
    assert 100 * counts[Class.WRONG] / outputs <= MOST_WRONG
    assert 100 * counts[Class.LOST] / outputs <= GLUED.get(family.name, MOST_LOST)
    assert 100 * counts[Class.RIGHT] / outputs >= LEAST_RIGHT.get(family.name, 0)
    assert counts[DIFFERS] == 0


@every_family
def test_without_a_slip_both_calls_are_right(family: Family) -> None:
    parsers = find_parsers("ours", family)
    assert parsers is not None
    for calls in PAIRS:
        events = read(parsers, family, write(family, calls))
        assert classify(events, calls) is Class.RIGHT


@pytest.mark.parametrize(
    ("events", "class_"),
    [
        (call("remove", {"path": "alpha"}), Class.RIGHT),
        (call("remove", {"path": "alpha"}, ToolCallMalformed(0, "invalid_json")), Class.OPEN),
        ([ToolCallStarted(0, "remove"), ToolCallArguments(0, '{"path": "alpha')], Class.OPEN),
        ([Content('remove {"path": "alpha"}')], Class.TEXT),
        ([Content("remove")], Class.LOST),
        (call("remove", {"path": "beta"}), Class.WRONG),
        (call("remove", {}), Class.WRONG),
        (call("delete", {"path": "alpha"}), Class.WRONG),
        (call("remove", {"path": "alpha", "": 1}), Class.WRONG),
    ],
)
def test_classes(events: list[Any], class_: Class) -> None:
    assert classify(events, MEANT) is class_


@pytest.mark.parametrize(("value", "class_"), [(">alpha", Class.OTHER), ("beta", Class.WRONG)])
def test_a_slip_that_writes_another_good_call_is_a_class_of_its_own(
    value: str, class_: Class
) -> None:
    family = next(family for family in WRITERS if family.name == "mimo")
    assert family.write is not None
    output = family.write("", [("remove", {"path": ">alpha"})])
    events = call("remove", {"path": value})
    assert classify_slip(events, MEANT, output, family.write) is class_
