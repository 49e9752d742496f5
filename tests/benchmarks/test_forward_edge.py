"""The delays and claims that `forward_edge` reports; no test asserts a measured time."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.answers import answer, tokenizer
from benchmarks.forward_edge import Report, check_claims, sum_problems, summarize, table
from benchmarks.long_prompts import Arrival, Outcome, compute_delays, find_token_ends, long_text

PACE = 10.0
ENDS = [2, 3, 5, 8]  # four tokens of 2, 1, 2 and 3 characters
START = 100.0


def arrivals(*delays: float) -> list[Arrival]:
    """Return the deltas of a stream whose tokens come so much later than they are generated."""
    pairs = enumerate(zip(ENDS, delays, strict=True))
    return [Arrival(START + number / PACE + delay, end) for number, (end, delay) in pairs]


def test_a_delay_is_what_comes_on_top_of_the_fastest_delta() -> None:
    found = [
        delay.seconds for delay in compute_delays(arrivals(0.001, 0.001, 0.031, 0.002), ENDS, PACE)
    ]
    assert found == pytest.approx([0.0, 0.0, 0.03, 0.001])


def test_a_merged_delta_counts_from_its_last_token() -> None:
    merged = [arrival for arrival in arrivals(0.0, 0.0, 0.0, 0.05) if arrival.characters != ENDS[1]]
    assert [delay.seconds for delay in compute_delays(merged, ENDS, PACE)] == pytest.approx(
        [0.0, 0.0, 0.05]
    )


def test_a_stream_without_deltas_has_no_delays() -> None:
    assert not list(compute_delays([], ENDS, PACE))


def test_the_tokens_of_the_answer_end_where_its_text_does() -> None:
    expected = answer("content")
    ends = find_token_ends(expected.token_ids)
    assert ends[-1] == len(expected.texts.content)
    assert len(ends) == len(expected.token_ids)


def test_long_texts_are_as_long_as_asked_and_differ_by_their_seed() -> None:
    one, other = long_text(10_000, 1), long_text(10_000, 2)
    assert len(one) == len(other) == 10_000
    assert one != other
    assert one == long_text(10_000, 1)
    assert len(set(one.split())) > 1_000, "a cache of words would help"
    assert tokenizer().decode(tokenizer().encode(one).ids) == one


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
