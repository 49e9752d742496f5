"""The linear parsers on the samples of their families, through the whole post-processor."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from backedge.parsers.parser_lookup import uses_native
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.cases import CASES, SGLANG_CASES, Case
from tests.parsers.sample_model import (
    build_model,
    build_parsers,
    cut,
    encode_output,
    every_token,
    read_outcome,
)

LINEAR = [*CASES.values(), *SGLANG_CASES.values()]


@pytest.mark.parametrize("case", LINEAR, ids=lambda case: f"{case.engine} {case.id}")
@settings(max_examples=5, deadline=None, database=None)
@given(cuts=st.sets(st.integers(1, 100)))
def test_gives_what_the_model_meant(case: Case, cuts: Collection[int]) -> None:
    assert not uses_native("auto", case.names)
    model = build_model(case.sample, build_parsers(case.sample, case.names, "linear"))
    token_ids = encode_output(model, case.sample)
    assert read_outcome(model.run(every_token(token_ids))) == case.sample.expected
    assert read_outcome(model.run(cut(token_ids, cuts))) == case.sample.expected
    assert model.failures == []
