"""The delays that `long_prompts` computes, and the texts of its prompts."""

from __future__ import annotations

import pytest

from benchmarks.answers import answer, tokenizer
from benchmarks.long_prompts import Arrival, compute_delays, find_token_ends, long_text

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
