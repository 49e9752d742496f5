"""The rows of `offline`: ratios, and texts that must be equal."""

from __future__ import annotations

import pytest

from benchmarks.offline import build_row, conversations, is_right

# ours, bare, stop string, whether they are equal
TEXTS = [
    ("one", "one", None, True),
    ("one", "two", None, False),
    ("1, 2,", "1, 2, 9, 10", " 9", True),
    ("1, 2, 9", "1, 2, 9, 10", " 9", False),
    ("half", "half\ufffd", None, True),
]


@pytest.mark.parametrize(("ours", "bare", "stop", "equal"), TEXTS)
def test_texts_are_compared_up_to_the_stop_string(ours, bare, stop, equal):
    assert is_right([ours], [bare], stop) is equal


def test_the_ratio_is_of_ways_that_follow_each_other():
    """A machine that is slow for half of the rounds is slow for both."""
    bare_s = [1.0] * 10 + [3.0] * 10 + [9.0]
    row = build_row("vllm", "full length", [1.01 * each for each in bare_s], bare_s, right=True)
    assert row.low == row.ratio == row.high == pytest.approx(1.01)
    assert row.bare_s == 3.0


def test_conversations_differ():
    assert len({str(messages) for messages in conversations(28)}) == 28
