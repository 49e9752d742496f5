"""Hostile output of the engines' own parsers: they may fail, their request and the next may not."""

from __future__ import annotations

import functools
import signal
from typing import Any

import pytest
from backedge.base.errors import UnusableParserError
from backedge.postprocess import Chunk
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.samples.tokenizers import encode
from tests.engines.parsers.support import case_id, usable, without_ids
from tests.hostile.campaign import WHOLE, examples
from tests.hostile.hostile_text import LONG_NATIVE, SHORT, check_deltas, draw_output
from tests.parsers.cases import CASES, REFUSED, SGLANG_CASES, Case
from tests.parsers.sample_model import (
    SampleModel,
    as_one,
    build_case_parsers,
    build_model,
    cut,
    encode_output,
)

EVERY = 1 if WHOLE else 10
ALL = pytest.mark.parametrize(
    "case",
    [*usable(CASES, REFUSED)[::EVERY], *usable(SGLANG_CASES, {})[5::EVERY]],
    ids=lambda case: f"{case.engine} {case_id(case)}",
)
# A parser may loop for ever; then it has failed, as in the pool.
HANGS_S = 5


@functools.cache
def build(engine: str, name: str) -> tuple[SampleModel, Any]:
    """Return a model and what it makes of its sample."""
    case = (SGLANG_CASES if engine == "sglang" else CASES)[name]
    try:
        model = build_model(case.sample, build_case_parsers(case))
    except UnusableParserError as error:
        pytest.skip(str(error))
    return model, without_ids(model.run(as_one(encode_output(model, case.sample))))


def check(case: Case, text: str, cuts: set[int], reason: str) -> None:
    model, expected = build(case.engine, case.id)
    ids = encode(model.tokenizer, text)
    signal.signal(signal.SIGALRM, raise_timeout)
    signal.alarm(HANGS_S)
    try:
        model.run(cut(ids, cuts, reason) if ids else [Chunk(finish_reason=reason)])
    finally:
        signal.alarm(0)
    check_deltas([delta for deltas in model.chunks for delta in deltas])
    again = without_ids(model.run(as_one(encode_output(model, case.sample))))
    assert again == expected
    assert model.failures == []


def raise_timeout(*_: object) -> None:
    raise TimeoutError


@ALL
@examples(6)
@given(data=st.data())
def test_hostile_output(case: Case, data: st.DataObject) -> None:
    text = data.draw(draw_output([case.sample.output], [], LONG_NATIVE))
    cuts = data.draw(st.sets(st.integers(1, 300), max_size=8))
    check(case, text, cuts, data.draw(st.sampled_from(["stop", "length"])))


@ALL
def test_every_piece_within_its_sample(case: Case) -> None:
    honest = case.sample.output
    for number, piece in enumerate(SHORT if WHOLE else SHORT[::6]):
        middle = len(honest) * (number % 7 + 1) // 8
        text = honest[:middle] + piece + honest[middle:]
        check(case, text, {*range(1, len(text), 3)}, "stop")
