"""The names of formats in Dynamo's own frontend."""

from __future__ import annotations

import sys

import pytest
from backedge.base.errors import REASONING_FLAG, TOOL_CALL_FLAG
from backedge.parsers.parser_lookup import known_formats
from backedge.worker.stock_frontends.rust_names import known_in_rust, name_in_rust


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
