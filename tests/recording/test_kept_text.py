"""Which text of an answer stays in a redacted recording."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from backedge.base.limits import MAX_SPELLED_NAMES
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.recording.kept_text import DIGIT, GONE, KEPT, KeptText, declared_names

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
    """Return the parts of `text` that stay."""
    kept = KeptText(params(parser=ParserRequest(tools=tools), **fields), names)
    runs = itertools.groupby(zip(text, kept.mask(text), strict=True), key=lambda pair: pair[1])
    return ["".join(one for one, _ in run) for mark, run in runs if mark != GONE]


def test_names_are_found_at_any_depth() -> None:
    names = {"plan_trip", "city", "stops", "at", "via", "train", "from", "more"}
    assert set(declared_names(TOOLS)) == names
    assert list(declared_names(ODD_TOOLS)) == ["f"]


STAYS = {
    "plan_trip(city='Rome')": ["plan_trip", "city"],
    "plan_trips city2 mycity at_": [],
    '{"name": "Bob", "arguments": {"name2": null}}': ["name", "arguments", "null"],
    "my name is true": ["true"],
    "<tool_call>": ["<tool_call>"],
    r"\n \\n \u00e9": [r"\n", "\\\\", r"\u", "00e9"],
    "1e5 e5 1E-5": ["e", "E"],
    "42.0 4.20 7.00": [".0", ".00"],
    "STOP here, END": ["END"],
}


@pytest.mark.parametrize(("text", "kept"), STAYS.items())
def test_what_stays(text: str, kept: list[str]) -> None:
    assert find(text, stop=["END"]) == kept


def test_the_digits_of_an_escape_are_marked() -> None:
    mask = KeptText(params(), ParserNames()).mask("\\u00e9")
    assert [*mask] == [KEPT] * 2 + [DIGIT] * 4


def tools_with(names: list[str]) -> list[Any]:
    parameters: dict[str, Any] = {"properties": {name: {} for name in names}}
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


def test_names_that_are_no_words_stay() -> None:
    names = ["get-it", "$ref", "a.b", "été", "an item", "a", "-"]
    text = "get-it xget-it get-its $ref a.bc été an items a b-c d - e"
    found = ["get-it", "$ref", "a", "été", "a", "-"]
    assert find(text, ParserNames(), tools_with(names)) == found


def test_so_many_names_that_are_no_words_stay() -> None:
    spelled = [f"n-{number}" for number in range(MAX_SPELLED_NAMES + 1)]
    words = [f"n{number}" for number in range(MAX_SPELLED_NAMES + 1)]
    stay = find(" ".join(spelled + words), ParserNames(), tools_with(spelled + words))
    assert stay == spelled[:-1] + words


def test_stop_strings_stay_wherever_they_stand() -> None:
    assert find("aaaa STOPSTOP xSTOPx", ParserNames(), stop=["aa", "STOP"]) == [
        "aaaa",
        "STOPSTOP",
        "STOP",
    ]


def test_words_of_a_format_stay_if_it_is_the_models() -> None:
    text = "<|channel|>analysis to=functions.secret"
    kept = ["<|channel|>analysis", "to=functions"]
    assert find(text, ParserNames("openai", "openai_gptoss")) == kept
    assert find(text, ParserNames()) == []
