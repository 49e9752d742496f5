"""The figures and claims that `forward_edge` reports; no test asserts a measured time."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.forward_edge import Report, check_claims, sum_problems, summarize, table
from benchmarks.long_prompts import Outcome


def outcome(quiet: float, busy: float, **problems: int) -> Outcome:
    return Outcome([quiet] * 100, [busy] * 100, [500.0], [0.1], problems)


@pytest.mark.parametrize(
    ("ours", "peers", "held"),
    [
        (20.0, 300.0, [True, True]),
        (80.0, 300.0, [False, True]),
        (400.0, 300.0, [False, False]),
        (20.0, 9.0, [True, False]),
    ],
)
def test_claims(ours: float, peers: float, held: list[bool]) -> None:
    rows = [
        summarize("stock vLLM", [outcome(1.0, peers)]),
        summarize("backedge python", [outcome(1.0, ours)]),
    ]
    assert [claim.held for claim in check_claims(rows)] == held


def test_rounds_count_together_and_the_report_is_one_json_object() -> None:
    outcomes = {"backedge vllm": [outcome(1.0, 2.0, lost=1), outcome(1.0, 4.0, lost=2)]}
    rows = [summarize(name, found) for name, found in outcomes.items()]
    assert rows[0].deltas == 200
    assert rows[0].p99 == rows[0].worst == 4.0
    report = Report({"rounds": 2}, [], rows, list(check_claims(rows)), sum_problems(outcomes))
    assert "problem: backedge vllm: 3 x lost" in table(report)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_a_system_that_answers_nothing_has_a_row() -> None:
    assert "nan" in table(Report({}, [], [summarize("backedge vllm", [Outcome()])], [], {}))
