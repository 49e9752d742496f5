"""Both systems of `stops` find the same stop string at the same place; its claims."""

from __future__ import annotations

import pytest

from benchmarks.stops import OURS, SYSTEMS, VLLM, Case, Row, build_report, cases, is_right, tokens


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_case_is_right(case: Case, system: str) -> None:
    assert is_right(SYSTEMS[system], case, tokens(case.text, 200))


def test_a_wrong_answer_is_noticed() -> None:
    case = Case("one", ["END"], "text without it ")
    assert not is_right(lambda *_: None, case, tokens(case.text, 20))


def test_tokens_are_the_text_repeated() -> None:
    pieces = tokens("abcdefg", 8)
    assert "".join(pieces) == ("abcdefg" * 5)[:32]
    assert {len(piece) for piece in pieces} == {3, 4, 5}


@pytest.mark.parametrize(
    ("us", "usual", "wrong", "cost_held", "growth_held"),
    [
        ({10: 0.5, 100: 0.6}, True, False, True, True),
        ({10: 0.5, 100: 0.7}, True, False, True, False),
        ({10: 1.1, 100: 1.1}, True, False, False, True),
        ({10: 0.5, 100: 0.5}, True, True, False, False),
    ],
)
def test_claims(
    us: dict[int, float], usual: bool, wrong: bool, cost_held: bool, growth_held: bool
) -> None:
    rows = [Row("list", OURS, us, usual, wrong), Row("list", VLLM, {10: 99.0}, usual, wrong=True)]
    report = build_report(rows, 1)
    assert (report.cost_held, report.growth_held) == (cost_held, growth_held)
