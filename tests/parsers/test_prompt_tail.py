"""The end of the prompt that belongs to the answer."""

from __future__ import annotations

import pytest
from backedge.parsers.prompt_tail import MAX_TAIL, answer_start

END_OF_TURN = 0


@pytest.mark.parametrize(
    ("prompt", "tail"),
    [
        ([], []),
        ([1, 2], [1, 2]),
        ([1, END_OF_TURN, 2, 3], [2, 3]),
        ([1, END_OF_TURN, 2, END_OF_TURN, 3], [3]),
        ([1, END_OF_TURN], []),
        ([END_OF_TURN, *[1] * MAX_TAIL, 2], [*[1] * (MAX_TAIL - 1), 2]),
    ],
)
def test_the_tail(prompt: list[int], tail: list[int]) -> None:
    assert answer_start(prompt, lambda token: token == END_OF_TURN) == tail
