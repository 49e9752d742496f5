"""Numbers at the ends of their ranges pass; `test_bad_requests` has those beyond."""

import pytest
from backedge.base.errors import RequestError
from backedge.base.ranges import RANGES, Range
from backedge.frontend.request.chat_request import apply_metadata_options
from backedge.frontend.request.validation import check_ranges
from hypothesis import given
from hypothesis import strategies as st

from tests.frontend.chat_requests import chat_request

FIELDS = [*RANGES, "prompt_logprobs"]


@pytest.mark.parametrize("field", RANGES)
def test_the_ends_of_a_range_are_in_it(field):
    least, most, above = RANGES[field]
    for value in (least + 0.001 if above else least, most):
        check_ranges(chat_request(**{field: value}), 10)


def test_what_is_not_set_is_in_range():
    check_ranges(chat_request(), None)
    check_ranges(chat_request(nvext={}), None)


@pytest.mark.parametrize(("vocabulary_size", "largest"), [(10, 9), (None, 2**31 - 1)])
def test_token_ids_are_those_of_the_vocabulary(vocabulary_size, largest):
    check_ranges(chat_request(stop_token_ids=[0, largest]), vocabulary_size)
    for field, fields in (
        ("stop_token_ids[1]", {"stop_token_ids": [0, largest + 1]}),
        ("stop[0]", {"stop": [largest + 1]}),
        (
            "metadata.backedge.stop_token_ids[0]",
            {"metadata": {"backedge": {"stop_token_ids": [largest + 1]}}},
        ),
    ):
        request = chat_request(**fields)
        apply_metadata_options(request)
        with pytest.raises(RequestError) as refused:
            check_ranges(request, vocabulary_size)
        assert refused.value.field == field


@given(st.sampled_from(FIELDS), st.integers() | st.floats())
def test_every_number_is_in_range_or_refused_with_its_field(field, value):
    request = chat_request()
    setattr(request, field, value)
    allowed = RANGES.get(field, Range(-1, 10))
    if allowed.least <= value <= allowed.most and not (allowed.above and value == allowed.least):
        check_ranges(request, 10)
    else:
        with pytest.raises(RequestError) as refused:
            check_ranges(request, 10)
        assert refused.value.field == field
