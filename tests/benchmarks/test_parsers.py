"""The calls that `parsers` measures, and its claims; no test asserts a measured time."""

from __future__ import annotations

import pytest

from benchmarks.parser_systems import OURS, VLLM, Ours
from benchmarks.parsers import (
    Cell,
    LongCall,
    Row,
    check_claims,
    families,
    load_family,
    measure,
    program_text,
)


def test_every_format_with_tool_calls_has_a_sample() -> None:
    found, skipped = families()
    assert len({family.name for family in found}) == len(found) > 40
    assert set(skipped.values()) == {"has no tool calls"}


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "pythonic"])
def test_our_parser_reads_the_long_call(name: str) -> None:
    family = load_family(name, (name,))
    parser = Ours().parser(family)
    assert parser is not None
    (cell,) = measure(parser, [LongCall(family, 200)], rounds=1, limit_s=30)
    assert (cell.note, cell.at_least, cell.rounds) == ("", False, 1)
    assert cell.tokens > 100


def test_another_call_is_wrong() -> None:
    call = LongCall(load_family("hermes", ("hermes",)), 50)
    assert not call.is_right(["add_note"], "{}")
    assert not call.is_right(["add_note"], "{")
    assert not call.is_right([], "")


def test_program_text_has_the_wanted_length() -> None:
    assert 990 <= len(program_text(1_000)) <= 1_000


def test_costs_are_claimed_for_the_machine_of_the_claim() -> None:
    rows = [
        Row("hermes", OURS, [Cell(1_000, us=7.0), Cell(64_000, us=8.0)]),
        Row("hermes", VLLM, [Cell(1_000, us=48.0)]),
    ]
    claims = check_claims(rows, hermes_us=48.0)
    assert (claims.worst, claims.worst_us, claims.reference_us) == ("hermes at 64000", 8.0, 4.0)
    assert claims.cost_held
    assert claims.growth_held
    assert not check_claims(rows, hermes_us=40.0).cost_held


@pytest.mark.parametrize("cell", [Cell(1_000, us=1.0, note="wrong"), Cell(1_000, at_least=True)])
def test_a_failed_cell_of_ours_holds_no_claim(cell: Cell) -> None:
    claims = check_claims([Row("hermes", OURS, [cell, Cell(64_000, us=1.0)])], None)
    assert claims.failed == ["hermes 1000"]
    assert not claims.cost_held
