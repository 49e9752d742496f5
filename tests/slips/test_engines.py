"""A real engine generates malformed calls again, in a format that has a thought in each prompt."""

from __future__ import annotations

import pytest

from tests.parsers.families import FAMILIES
from tests.slips.engines import measure
from tests.slips.regeneration import Got

EVERY = 40


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_grammar_holds_whether_or_not_the_engine_sees_a_thoughts_end(engine: str) -> None:
    counts = measure(FAMILIES["muse_glimmer"], engine, EVERY, ())
    for mode in ("whole", "streamed"):
        # A header that cannot be read names no function.
        assert counts[mode][Got.RIGHT] >= counts[mode].total() - 1, counts
        assert not counts[mode][Got.WRONG]
        assert not counts[mode][Got.LOST]
    assert counts["open"][Got.RIGHT] < counts["whole"][Got.RIGHT]
