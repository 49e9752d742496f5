"""Well-formed calls pass unchanged, whatever their schema says, at any chunking."""

from __future__ import annotations

import random

import pytest
from backedge.parsers.parser_lookup import tool_format
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.families.family import Family
from tests.parsers.fuzzing import fuzz
from tests.slips.outcome import Class
from tests.slips.systems import WRITERS, find_parsers, read
from tests.slips.test_properties import read_text
from tests.slips.wellformed import KINDS, draw_case, judge

every_family = pytest.mark.parametrize("family", WRITERS, ids=[family.name for family in WRITERS])

# Most keys with characters of a syntax are none of Python's.
TRIES = 1000


@every_family
@pytest.mark.parametrize("kind", KINDS)
@fuzz(2)
@given(draw=st.randoms(use_true_random=True), size=st.integers(2, 40))
def test_a_wellformed_call_passes_unchanged(
    family: Family, kind: str, draw: random.Random, size: int
) -> None:
    format_, parsers = tool_format(family.name), find_parsers("ours", family)
    assert format_ is not None
    assert parsers is not None
    assert family.write is not None
    drawn = (draw_case(draw, family, format_, kind) for _ in range(TRIES))
    case = next(case for case in drawn if case is not None)
    by_character = read_text(family, case.output, 1, case.tools)
    assert judge(case, by_character, family.write) is Class.RIGHT
    assert read_text(family, case.output, size, case.tools) == by_character
    by_token = read(parsers, family, case.output, case.tools)
    assert judge(case, by_token, family.write) is Class.RIGHT
