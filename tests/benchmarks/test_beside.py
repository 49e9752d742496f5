"""Two checkouts in one run: processes that answer on request, and the ratios of paired rounds."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.beside import Child, compare, ratio_table
from benchmarks.frontend_cost import Case, Sample, compare_systems
from benchmarks.systems import BACKEDGE, BACKEDGE_BESIDE, RUST

ECHO = "from benchmarks.beside import serve\nfrom msgspec import Raw\nserve(lambda plan: plan, Raw)"


class Number(msgspec.Struct):
    """A plan and its outcome."""

    number: int


def test_a_process_answers_each_plan() -> None:
    with Child("-c", ECHO) as child:
        for number in range(3):
            child.ask(Number(number))
            assert child.answer(Number) == Number(number)


def test_a_process_that_ends_is_an_error() -> None:
    with Child("-c", "input()") as child:
        child.ask(Number(1))
        with pytest.raises(RuntimeError, match="has ended"):
            child.answer(Number)


def test_ratios_are_those_of_the_rounds() -> None:
    # The other checkout's second round was slow, as the machine was for both.
    found = compare("content", "us", [1.0, 4.0, 3.0], [1.0, 4.0, 2.0])
    assert (found.median, found.lowest, found.highest) == (1.0, 1.0, 1.5)
    assert "1.000" in ratio_table([found])[-1]


def test_only_two_systems_are_compared() -> None:
    def samples(us: float) -> list[Sample]:
        return [Sample(*[us] * 7)]

    figures = {BACKEDGE: 3.0, BACKEDGE_BESIDE: 2.0, RUST: 1.0}
    by_case = {Case(name, "content", True, 300): samples(us) for name, us in figures.items()}
    ratios = list(compare_systems(by_case, BACKEDGE, BACKEDGE_BESIDE))
    assert [ratio.figure for ratio in ratios] == ["frontend_us", "request_ms", "worker_us"]
    assert {ratio.median for ratio in ratios} == {1.5}
    alone = {Case(BACKEDGE, "content", True, 300): samples(3.0)}
    assert list(compare_systems(alone, BACKEDGE, BACKEDGE_BESIDE)) == []
