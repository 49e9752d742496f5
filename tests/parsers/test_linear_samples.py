"""Our own parsers on the samples of every family, and pair of families, that have them; through the whole core."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from backedge.parsers.parser_lookup import uses_native
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.cases import CASES, Case
from tests.parsers.core import core_of, cut, every_token, outcome, output_of, parsers_of

LINEAR = [case for case in CASES.values() if not uses_native("auto", case.names)]


@pytest.mark.parametrize("case", LINEAR, ids=lambda case: case.id)
@settings(max_examples=5, deadline=None, database=None)
@given(cuts=st.sets(st.integers(1, 100)))
def test_gives_what_the_model_meant(case: Case, cuts: Collection[int]) -> None:
    core = core_of(case.sample, parsers_of(case.sample, case.names, "linear"))
    token_ids = output_of(core, case.sample)
    assert outcome(core.run(every_token(token_ids))) == case.sample.expected
    assert outcome(core.run(cut(token_ids, cuts))) == case.sample.expected
    assert core.failures == []
