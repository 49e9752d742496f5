"""Padding on the left, and what pads."""

import pytest
from backedge.base.errors import SetupError
from backedge.engines.transformers.offline import choose_pad_token, pad_left


def test_prompts_end_together():
    assert pad_left([[1, 2, 3], [4]], 0) == ([[1, 2, 3], [0, 0, 4]], [[1, 1, 1], [0, 0, 1]])


@pytest.mark.parametrize(("pad", "expected"), [(7, 7), (0, 0), (None, 5)])
def test_the_end_of_sequence_token_pads_where_no_other_does(pad, expected):
    assert choose_pad_token(pad, [5, 6]) == expected


def test_a_model_without_either():
    with pytest.raises(SetupError, match="neither a pad token nor an end-of-sequence token"):
        choose_pad_token(None, [])
