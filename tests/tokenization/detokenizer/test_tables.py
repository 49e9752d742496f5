"""The table of pieces, and where a detokenizer starts after a prompt."""

import pytest
from backedge.tokenization.detokenizer import DetokenizerOptions
from backedge.tokenization.detokenizer.tables import ByteLevelDetokenizers, PieceTable
from hypothesis import given
from hypothesis import strategies as st

from tests.support import encode, tiny_tokenizer

FACTORY = ByteLevelDetokenizers(tiny_tokenizer())
PIECES = {1: "one", 2: b"\xe4", 3: b"", 4: ""}


def test_a_piece_is_read_once():
    read = []

    def read_piece(token_id):
        read.append(token_id)
        return PIECES[token_id]

    table = PieceTable(read_piece, [9])
    assert [table[token_id] for token_id in (1, 2, 3, 1, 2, 3, 9)] == [
        *("one", b"\xe4", b""),
        *("one", b"\xe4", b"", b""),
    ]
    assert read == [1, 2, 3]
    assert table.texts == {1: "one", 3: "", 9: ""}, "parts of characters are not texts"


@given(token_ids=st.lists(st.integers(0, 600), max_size=30), split=st.integers(0, 30))
@pytest.mark.parametrize("skip", [True, False])
def test_feed_all_is_feed_for_each(skip, token_ids, split):
    options = DetokenizerOptions(skip_special_tokens=skip)
    one, all_ = (FACTORY(options, token_ids[:split]) for _ in range(2))
    assert all_.feed_all(token_ids[split:]) == "".join(map(one.feed, token_ids[split:]))


@pytest.mark.parametrize("hidden", [0, 1, 50])
def test_a_character_that_the_prompt_begins_is_finished(hidden):
    *begin, end = encode("世")
    special = encode("<|im_end|>")
    detokenizer = FACTORY(DetokenizerOptions(), [*encode("a"), *begin, *special * hidden])
    assert detokenizer.feed(end) == "世"


def test_bytes_and_special_tokens():
    [special] = encode("<|im_end|>")
    assert FACTORY.token_bytes(special) == b"<|im_end|>"
    assert FACTORY.is_special(special)
    assert not FACTORY.is_special(encode("a")[0])
    assert b"".join(map(FACTORY.token_bytes, encode("世"))) == "世".encode()
