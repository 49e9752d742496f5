"""The names of formats in Dynamo's own frontend."""

from __future__ import annotations

import sys

import pytest
from backedge.base.errors import REASONING_FLAG, TOOL_CALL_FLAG
from backedge.parsers.base import ParserNames
from backedge.parsers.parser_lookup import known_formats
from backedge.worker.stock_frontends import (
    complete_names,
    known_in_rust,
    name_in_rust,
)


@pytest.mark.parametrize(
    ("flag", "name", "expected"),
    [
        (TOOL_CALL_FLAG, "hermes", "hermes"),
        (TOOL_CALL_FLAG, "openai", "harmony"),
        (TOOL_CALL_FLAG, "deepseek_v31", "deepseek_v3_1"),
        (TOOL_CALL_FLAG, "phi4_mini_json", "phi4"),
        (TOOL_CALL_FLAG, "xlam", None),
        (REASONING_FLAG, "openai", "gpt_oss"),
        (REASONING_FLAG, "qwen3", "qwen3"),
    ],
)
def test_a_name_of_ours_comes_first(flag, name, expected) -> None:
    entry = known_formats()[name]
    format_ = entry.tools if flag == TOOL_CALL_FLAG else entry.reasoning
    assert format_ is not None
    assert name_in_rust(flag, format_) == expected


def test_without_dynamo_there_are_none(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "dynamo._core", None)
    assert known_in_rust(TOOL_CALL_FLAG) == ()


NAMES = [
    (ParserNames(), ParserNames("hermes", "qwen3"), "auto", ParserNames("hermes", "qwen3")),
    (ParserNames(), ParserNames("deepseek_v3_1", "gpt_oss"), "linear",
     ParserNames("deepseek_v31", "openai")),
    (ParserNames("mistral"), ParserNames("hermes", "qwen3"), "auto",
     ParserNames("mistral", "qwen3")),
    # No format of ours, or native parsers.
    (ParserNames(), ParserNames("default", "step"), "auto", ParserNames()),
    (ParserNames(), ParserNames("hermes", "qwen3"), "native", ParserNames()),
    (ParserNames("hermes"), ParserNames(), "auto", ParserNames("hermes")),
]  # fmt: skip


@pytest.mark.parametrize(("names", "in_rust", "kind", "expected"), NAMES)
def test_missing_names_are_those_of_dynamos_flags(names, in_rust, kind, expected) -> None:
    assert complete_names(names, in_rust, kind) == expected
