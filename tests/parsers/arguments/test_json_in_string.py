"""JSON in a JSON string is read in any pieces; what follows it is handed on."""

from __future__ import annotations

import json

import pytest
from backedge.parsers.arguments.json_in_string import JsonInString
from backedge.parsers.arguments.json_repair import JsonRepairer


def read(pieces: list[str]) -> tuple[str, str]:
    """Return the value in the string, and the text after it."""
    value: list[str] = []
    stray: list[str] = []
    inside = JsonInString(JsonRepairer(value.append), stray.append, lambda: stray.append("cut"))
    for piece in pieces:
        inside(piece)
    inside.finish()
    return "".join(value), "".join(stray)


@pytest.mark.parametrize(
    "value", ['{"a": 1}', '{"a": "x\\"y", "b": [1, {}]}', '{"a": "ä😀"}', "{}"]
)
def test_the_value_is_read(value: str) -> None:
    assert read([json.dumps(value, ensure_ascii=False)[1:-1]]) == (value, "")


def test_half_of_a_surrogate_pair_waits() -> None:
    assert read(['{\\"a\\": \\"', "\\ud83d", "\\ude00", '\\"}']) == ('{"a": "😀"}', "")


def test_what_follows_the_value_is_handed_on() -> None:
    assert read(['{\\"a\\": 1}', " and more"]) == ('{"a": 1}', " and more")


def test_the_end_of_the_string_may_cut_the_value() -> None:
    assert read(['{\\"a\\": 1'])[1] == "cut"
