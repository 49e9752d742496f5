"""The names of formats in Dynamo's own frontend."""

from __future__ import annotations

import sys

import pytest
from backedge.base.errors import REASONING_FLAG, TOOL_CALL_FLAG
from backedge.parsers.parser_lookup import known_formats
from backedge.worker.stock_frontends.rust_names import OTHER_NAMES, known_in_rust, name_in_rust


@pytest.mark.parametrize("flag", OTHER_NAMES)
def test_other_names_are_needed_and_known(flag) -> None:
    for name, other in OTHER_NAMES[flag].items():
        entry = known_formats()[name]
        format_ = entry.tools if flag == TOOL_CALL_FLAG else entry.reasoning
        assert format_ is not None
        assert not {name, *format_.aliases} & set(known_in_rust(flag))
        assert name_in_rust(flag, format_) == other


@pytest.mark.parametrize(
    ("flag", "name", "expected"),
    [
        (TOOL_CALL_FLAG, "hermes", "hermes"),
        (TOOL_CALL_FLAG, "openai", "harmony"),
        (TOOL_CALL_FLAG, "xlam", None),
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
