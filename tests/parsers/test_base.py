"""The request as the parsers see it, and the names of parsers."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.parsers.base import ParserNames, ParserRequest

TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (ParserNames("hermes", "qwen3"), "qwen3+hermes"),
        (ParserNames("hermes"), "hermes"),
        (ParserNames(reasoning="qwen3"), "qwen3"),
        (ParserNames(), "none"),
    ],
)
def test_the_label_of_names(names: ParserNames, label: str) -> None:
    assert names.label == label


# tools, tool_choice, json_calls; parses_tools, parses_own_syntax, forced_name
REQUESTS: list[tuple[list[Any], Any, bool, tuple[bool, bool, str | None]]] = [
    ([], "auto", False, (False, False, None)),
    ([TOOL], "none", False, (False, False, None)),
    ([TOOL], "auto", False, (True, True, None)),
    ([TOOL], "required", False, (True, True, None)),
    ([TOOL], "required", True, (True, False, None)),
    ([TOOL], TOOL, True, (True, False, "f")),
]


@pytest.mark.parametrize(("tools", "tool_choice", "json_calls", "expected"), REQUESTS)
def test_what_a_request_has_parsed(
    tools: list[Any], tool_choice: Any, json_calls: bool, expected: tuple[bool, bool, str | None]
) -> None:
    request = ParserRequest(tools=tools, tool_choice=tool_choice, json_calls=json_calls)
    assert (request.parses_tools, request.parses_own_syntax, request.forced_name) == expected
