"""Which text of an answer stays in a redacted recording."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from backedge.base.limits import MAX_SPELLED_NAMES
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.recording.kept_text import KeptText, declared_names

from tests.support import params

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "secret"},
        "stops": {"type": "array", "items": {"properties": {"at": {}}}},
        "via": {"anyOf": [{"properties": {"train": {}}}, {"type": "null"}]},
    },
    "$defs": {"Leg": {"properties": {"from": {}}}},
    "additionalProperties": {"properties": {"more": {}}},
}
TOOLS = [{"type": "function", "function": {"name": "plan_trip", "parameters": SCHEMA}}]
ODD_TOOLS: list[Any] = [
    {},
    {"function": "no"},
    {"function": {"name": 5, "parameters": True}},
    {"function": {"name": "f", "parameters": {"properties": [], "anyOf": {}, "items": 7}}},
]


HERMES = ParserNames("hermes")


def find(text: str, names: ParserNames = HERMES, tools: Any = TOOLS, **fields: Any) -> list[str]:
    """Return the parts of `text` that stay, and what replaces those that are renamed."""
    kept = KeptText(params(parser=ParserRequest(tools=tools), **fields), names)
    runs = itertools.groupby(kept.mask(text), key=lambda new: new is None)
    return ["".join(filter(None, run)) for is_gone, run in runs if not is_gone]


def test_names_are_found_at_any_depth() -> None:
    names = {"plan_trip", "city", "stops", "at", "via", "train", "from", "more"}
    assert set(declared_names(TOOLS)) == names
    assert list(declared_names(ODD_TOOLS)) == ["f"]
    assert list(declared_names(TOOLS, ("$defs",))) == ["plan_trip", "Leg"]


STAYS = {
    "plan_trip(city='Rome')": ["N01", "N04"],
    "plan_trips city2 mycity at_": [],
    '{"name": "Bob", "arguments": {"name2": null}}': ["name", "arguments", "null"],
    "my name is true": ["true"],
    "<tool_call>": ["<tool_call>"],
    r"\n \\n \u00e9": [r"\n", "\\\\", r"\u1111"],
    "1e5 e5 1E-5": ["e", "E"],
    "42.0 4.20 7.00": [".0", ".00"],
    "STOP here, END": ["N10"],
}


@pytest.mark.parametrize(("text", "kept"), STAYS.items())
def test_what_stays(text: str, kept: list[str]) -> None:
    assert find(text, stop=["END"]) == kept


def tools_with(names: list[str]) -> list[Any]:
    parameters: dict[str, Any] = {"properties": {name: {} for name in names}}
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


def test_names_that_are_no_words_are_found() -> None:
    names = ["get-it", "$ref", "a.b", "été", "an item", "a", "-"]
    text = "get-it xget-it get-its $ref a.bc été an items a b-c d - e"
    found = ["N2", "N3", "N7", "N5", "N7", "-"]
    assert find(text, ParserNames(), tools_with(names)) == found


def test_so_many_names_that_are_no_words_are_found() -> None:
    spelled = [f"n-{number}" for number in range(MAX_SPELLED_NAMES + 1)]
    words = [f"n{number}" for number in range(MAX_SPELLED_NAMES + 1)]
    found = find(" ".join(spelled + words), ParserNames(), tools_with(spelled + words))
    assert len(set(found)) == 2 * MAX_SPELLED_NAMES + 1


def test_stop_strings_are_found_wherever_they_are() -> None:
    assert find("aaaa STOPSTOP xSTOPx, -- ", ParserNames(), stop=["aa", "STOP", "--", "OPx"]) == [
        *("N10N10", "N11N11", "N11"),
    ]


def test_words_of_a_format_stay_if_it_is_the_models() -> None:
    text = "<|channel|>analysis to=functions.secret"
    kept = ["<|channel|>analysis", "to=functions"]
    assert find(text, ParserNames("openai", "openai_gptoss")) == kept
    assert find(text, ParserNames()) == []
