"""The conversations that are measured, and the report; no time is asserted."""

from __future__ import annotations

import math

import pytest
from backedge.templates.chat_template import ModelPrompts

from benchmarks.conversations import (
    ENCODERS,
    Turns,
    make_messages,
    measure_tokenization,
    summarize,
)
from tests.support import TINY_MODEL


@pytest.mark.parametrize("characters", [8, 1_000, 50_000])
def test_each_turn_is_the_one_before_and_a_little_more(characters: int) -> None:
    messages = make_messages(characters, 20)
    assert [message["role"] for message in messages] == ["user", "assistant"] * 19 + ["user"]
    assert len({str(message["content"]) for message in messages}) > 1
    length = sum(len(message["content"]) for message in messages)
    assert characters <= length <= max(characters, 40)
    render = ModelPrompts(TINY_MODEL).template.render
    ending = "assistant\n"
    for turn in range(1, 20):
        before, after = (render(messages[: 2 * n - 1]) for n in (turn, turn + 1))
        assert after.startswith(before[: before.rindex(ending)])


@pytest.mark.parametrize("backend", ENCODERS)
def test_the_tokenizers_are_measured_and_their_ids_compared(backend: str) -> None:
    cost = measure_tokenization(backend, 20_000, 3, 1)
    assert cost.backend == backend
    assert cost.tokens > 1_000


def test_a_row_has_the_medians_and_all_problems() -> None:
    row = summarize("ours", 100_000, [Turns([9.0, 1.0, 2.0, 3.0], ["turn 2: lost"])])
    assert (row.first, row.last, row.problems) == (9.0, 2.0, ["turn 2: lost"])
    assert math.isnan(summarize("silent", 8, [Turns()]).first)
