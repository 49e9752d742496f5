"""The calls that `parsers` measures; no test asserts a measured time."""

from __future__ import annotations

import pytest

from benchmarks.parser_systems import build_ours
from benchmarks.parsers import (
    LongCall,
    families,
    load_family,
    measure,
    program_text,
)


def test_every_format_with_tool_calls_has_a_sample() -> None:
    found, skipped = families()
    assert len({family.name for family in found}) == len(found) > 40
    assert {one.reason for one in skipped} == {"no tool calls"}


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "pythonic"])
def test_our_parser_reads_the_long_call(name: str) -> None:
    family = load_family(name, (name,))
    (cell,) = measure(build_ours(family), [LongCall(family, 200)], rounds=1, limit_s=30)
    assert (cell.note, cell.at_least, cell.rounds) == ("", False, 1)
    assert cell.tokens > 100


def test_another_call_is_wrong() -> None:
    call = LongCall(load_family("hermes", ("hermes",)), 50)
    assert not call.is_right(["add_note"], "{}")
    assert not call.is_right(["add_note"], "{")
    assert not call.is_right([], "")


def test_program_text_has_the_wanted_length() -> None:
    assert 990 <= len(program_text(1_000)) <= 1_000
