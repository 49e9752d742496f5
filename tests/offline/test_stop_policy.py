"""Which token ends an answer, and how stops are normalized."""

import pytest
from backedge.offline.completion import StopPolicy, normalize_stops
from backedge.tokenization.detokenizer import read_vocabulary
from hypothesis import given
from hypothesis import strategies as st

from tests.support import cut, encode, tiny_tokenizer

VOCABULARY = read_vocabulary(tiny_tokenizer())
[END] = encode("<|im_end|>")

# tokens, limit, how many belong to the answer, and why it ends
ENDS = [
    ([1, 2, 3], None, 3, None),
    ([1, 9, 3], None, 2, "stop"),
    ([1, 2, 3], 2, 2, "length"),
    ([1, 9, 3], 2, 2, "stop"),
    ([1, 2, 9], 2, 2, "length"),
    ([], 2, 0, None),
]


@pytest.mark.parametrize(("token_ids", "limit", "count", "reason"), ENDS)
def test_the_first_end_counts(token_ids, limit, count, reason):
    policy = StopPolicy(tokens={9: None}, max_new_tokens=limit)
    assert policy.find_end(token_ids, 0) == (count, reason)


@given(
    st.lists(st.integers(0, 3), max_size=12),
    st.sets(st.integers(1, 12)),
    st.none() | st.integers(1, 14),
)
def test_pieces_end_where_the_whole_ends(token_ids, cuts, limit):
    policy = StopPolicy(tokens={0: None}, max_new_tokens=limit)
    taken, reason = 0, None
    for piece in cut(token_ids, cuts):
        count, reason = policy.find_end(piece, taken)
        taken += count
        if reason:
            break
    assert (taken, reason) == policy.find_end(token_ids, 0)


def test_a_special_token_as_a_stop_string_becomes_a_stop_token():
    stops = ["<|im_end|>", "a", "a", "<|im_start|>"]
    strings, tokens = normalize_stops(stops, [7, END], VOCABULARY, [END], hides_special=True)
    assert strings == ["a"]
    assert tokens == {END: "<|im_end|>", 7: 7, encode("<|im_start|>")[0]: "<|im_start|>"}


def test_a_parser_sees_special_tokens_so_they_stay_strings():
    strings, tokens = normalize_stops(["<|im_start|>"], [], VOCABULARY, [END], hides_special=False)
    assert (strings, tokens) == (["<|im_start|>"], {END: None})


def test_the_models_own_end_has_no_stop_reason():
    assert normalize_stops([], [END], VOCABULARY, [END], hides_special=True) == ([], {END: None})
