"""Which text of an answer stays in a redacted recording."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.recording.kept_text import HEX, build_kept_pattern, declared_names

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


def find(text: str, names: ParserNames = HERMES, **fields: Any) -> list[str]:
    pattern = build_kept_pattern(params(parser=ParserRequest(tools=TOOLS), **fields), names)
    return [match.group() for match in pattern.finditer(text)]


def test_names_are_found_at_any_depth() -> None:
    names = {"plan_trip", "city", "stops", "at", "via", "train", "from", "more"}
    assert set(declared_names(TOOLS)) == names
    assert list(declared_names(ODD_TOOLS)) == ["f"]


KEPT = {
    "plan_trip(city='Rome')": ["plan_trip", "city"],
    "plan_trips city2 mycity at_": [],
    '{"name": "Bob", "arguments": {"name2": null}}': ["name", "arguments", "null"],
    "my name is true": ["true"],
    "<tool_call>": ["<tool_call>"],
    r"\n \\n \u00e9": [r"\n", "\\\\", r"\u00e9"],
    "1e5 e5 1E-5": ["e", "E"],
    "42.0 4.20 7.00": [".0", ".00"],
    "STOP here, END": ["END"],
}


@pytest.mark.parametrize(("text", "kept"), KEPT.items())
def test_what_stays(text: str, kept: list[str]) -> None:
    assert find(text, stop=["END"]) == kept


def test_the_digits_of_an_escape_are_marked() -> None:
    pattern = build_kept_pattern(params(), ParserNames())
    match = pattern.search("\\u00e9")
    assert match is not None
    assert match.span(HEX) == (2, 6)


def test_words_of_a_format_stay_if_it_is_the_models() -> None:
    text = "<|channel|>analysis to=functions.secret"
    assert find(text, ParserNames("openai", "openai_gptoss")) == [
        "<|channel|>",
        "analysis",
        "to=",
        "functions",
    ]
    assert find(text, ParserNames()) == []
