"""Tests that the native parsers of every engine share, on samples of their families."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import msgspec
import pytest
from backedge.base.errors import UnusableParserError
from backedge.postprocess import ChoiceDelta
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.parsers.cases import Case, Difference
from tests.parsers.sample_model import (
    SampleModel,
    as_one,
    build_case_parsers,
    build_model,
    cut,
    encode_output,
    every_token,
    is_missing,
    read_outcome,
)

few_cuts = settings(
    max_examples=6,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def case_id(case: Case) -> str:
    return case.id


def usable(cases: Mapping[str, Case], refused: Mapping[str, str]) -> list[Case]:
    """Return the cases whose parsers can be built here."""
    return [
        case for case in cases.values() if not is_missing(case.sample) and case.id not in refused
    ]


def in_plain_text(cases: list[Case]) -> list[Case]:
    """Return the cases whose models may answer with text alone.

    With a reasoning parser such text may be reasoning; Harmony has no text without a header.
    """
    return [
        case
        for case in cases
        if case.names.reasoning is None and case.sample.tokenizer != "harmony"
    ]


def without_ids(whole: ChoiceDelta) -> ChoiceDelta:
    """Return the answer without its calls' ids, which are random."""
    calls = [msgspec.structs.replace(call, id=None) for call in whole.delta.tool_calls]
    return msgspec.structs.replace(
        whole, delta=msgspec.structs.replace(whole.delta, tool_calls=calls)
    )


class SampleTests:
    """A subclass's fixture `case` returns the samples.

    differences: the known errors, by case.
    """

    differences: Mapping[str, Difference]

    @pytest.fixture
    def model(self, case: Case) -> SampleModel:
        return build_model(case.sample, build_case_parsers(case))

    @pytest.fixture
    def whole(self, case: Case, model: SampleModel) -> ChoiceDelta:
        """What the sample gives, one token at a time."""
        return model.run(every_token(encode_output(model, case.sample)))

    def test_a_sample_gives_what_its_model_meant(
        self, case: Case, model: SampleModel, whole: ChoiceDelta
    ):
        difference = self.differences.get(case.id)
        if difference is not None:
            assert read_outcome(whole) != case.sample.expected, (
                f"{case.id} works now: remove it from the differences"
            )
        assert read_outcome(whole) == (difference.gives if difference else case.sample.expected)
        assert model.failures == []

    @few_cuts
    @given(cuts=st.sets(st.integers(1, 200)))
    def test_every_chunking_gives_the_same(
        self, case: Case, model: SampleModel, whole: ChoiceDelta, cuts: Collection[int]
    ):
        assert without_ids(model.run(cut(encode_output(model, case.sample), cuts))) == without_ids(
            whole
        )

    def test_one_chunk_and_no_stream_give_the_same(
        self, case: Case, model: SampleModel, whole: ChoiceDelta
    ):
        token_ids = encode_output(model, case.sample)
        assert without_ids(model.run(as_one(token_ids))) == without_ids(whole)
        model.params = msgspec.structs.replace(model.params, stream=False)
        assert without_ids(model.run(every_token(token_ids))) == without_ids(whole)


def content_of_plain_text(case: Case, text: str) -> str:
    """Return the content of an answer that is `text`; it must contain no call."""
    model = build_model(case.sample, build_case_parsers(case))
    sample = replace(case.sample, output=text)
    whole = model.run(every_token(encode_output(model, sample)))
    assert whole.delta.tool_calls == []
    # SentencePiece writes the space before a word, also before the first.
    return (whole.delta.content or "").removeprefix(
        " " if sample.tokenizer == "sentencepiece" else ""
    )


def check_refused(case: Case, message: str) -> None:
    """Check that no worker starts with the case's parsers."""
    with pytest.raises(UnusableParserError, match=message):
        build_case_parsers(case)
