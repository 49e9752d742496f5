"""Which tokens count as reasoning."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.parsers.events import Content, Event, Reasoning
from backedge.parsers.native.reasoning_count import ReasoningCount

MARKER = 9
# What a parser says of its state: None if only the events show it.
Step = tuple[list[int], list[Event], bool | None, bool]
THOUGHT: list[Event] = [Reasoning("a")]
TEXT: list[Event] = [Content("b")]
# Steps: tokens, events, state afterwards, whether a marker was passed; then the tokens counted,
# and whether the choice is in reasoning.
CASES: dict[str, tuple[list[Step], int, bool]] = {
    "each token by itself": ([([1], THOUGHT, True, False), ([2], THOUGHT, True, False)], 2, True),
    "text that is held back counts later": (
        [([1], [], True, False), ([2, 3], THOUGHT, True, False)],
        3,
        True,
    ),
    "held back, but no reasoning": (
        [([1], [], True, False), ([2], TEXT, False, True)],
        0,
        False,
    ),
    "a marker never counts": (
        [([1], THOUGHT, True, False), ([MARKER], [], False, True), ([2], TEXT, False, False)],
        1,
        False,
    ),
    "the events show it": (
        [([1], THOUGHT, None, False), ([2], TEXT, None, False), ([3], TEXT, None, False)],
        1,
        False,
    ),
    "reasoning comes again": (
        [([1], TEXT, None, False), ([2], THOUGHT, None, False), ([3], THOUGHT, None, False)],
        1,
        True,
    ),
}


@pytest.mark.parametrize(("steps", "tokens", "reasons"), CASES.values(), ids=CASES)
def test_what_counts(steps: list[Any], tokens: int, reasons: bool) -> None:
    count = ReasoningCount(frozenset({MARKER}), in_reasoning=True)
    for token_ids, events, state, passed in steps:
        count.update(token_ids, events, in_reasoning=state, passed_marker=passed)
    assert (count.tokens, count.in_reasoning) == (tokens, reasons)
