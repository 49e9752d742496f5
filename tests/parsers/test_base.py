"""The request as the parsers see it, and the names of parsers."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.parsers.base import ParserNames, ParserRequest, ParserWrapper
from backedge.parsers.forced_calls import ForcedCallParser
from backedge.parsers.passthrough import PassthroughParser

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


class ReasoningParser(PassthroughParser):
    token_aligned, in_reasoning, reasoning_tokens, dropped_calls = True, True, 3, 0

    def reads_together(self, token_ids: Any) -> bool:
        return len(token_ids) == 2


@pytest.mark.parametrize("inner", [PassthroughParser(), ReasoningParser()])
def test_a_wrapper_answers_as_the_parser_in_it(inner: Any) -> None:
    wrapper: ParserWrapper = ForcedCallParser(inner, None)
    for name in ("token_aligned", "in_reasoning", "reasoning_tokens"):
        assert getattr(wrapper, name) == getattr(inner, name)
    for token_ids in ([1], [1, 2]):
        assert wrapper.reads_together(token_ids) == inner.reads_together(token_ids)
