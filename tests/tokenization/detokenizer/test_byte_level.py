"""Byte-level BPE: bytes are joined to characters, special tokens shown or hidden."""

import pytest
from backedge.tokenization.detokenizer import DetokenizerOptions
from backedge.tokenization.detokenizer.tables import ByteLevelDetokenizers
from backedge.tokenization.detokenizer.vocabulary import BYTE_LEVEL
from hypothesis import given
from hypothesis import strategies as st

from tests.support import encode, tiny_tokenizer

FACTORY = ByteLevelDetokenizers(tiny_tokenizer())
SHOW = DetokenizerOptions(skip_special_tokens=False)


def read_text(token_ids, options=SHOW):
    return "".join(map(FACTORY(options, ()).feed, token_ids))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (DetokenizerOptions(), "a<think>b"),
        (SHOW, "a<|im_start|><think>b<|im_end|>"),
        (
            DetokenizerOptions(skip_special_tokens=False, spaces_between_special_tokens=False),
            "a<|im_start|><think>b<|im_end|>",
        ),
    ],
)
def test_special_tokens(options, expected):
    assert read_text(encode("a<|im_start|><think>b<|im_end|>"), options) == expected


@given(st.text(max_size=30))
def test_token_bytes_add_up_to_the_text(text):
    joined = b"".join(FACTORY.token_bytes(token_id) for token_id in encode(text))
    assert joined.decode() == tiny_tokenizer().normalizer.normalize_str(text)


# The token of each single byte.
BYTE_TOKENS = {byte: tiny_tokenizer().get_vocab()[char] for char, byte in BYTE_LEVEL.items()}
# bytes, the text that each of them completes
STEPS = [
    ("世".encode(), ["", "", "世"]),
    ("é!".encode(), ["", "é", "!"]),
    ("😀".encode(), ["", "", "", "😀"]),
    (b"\xff\x80a", ["\ufffd", "\ufffd", "a"]),
    (b"\xe4\xb8a", ["", "", "\ufffda"]),
    (b"\xe4\xb8\xe4\xb8\x96", ["", "", "\ufffd", "", "世"]),
]


@pytest.mark.parametrize(("content", "texts"), STEPS, ids=[repr(step[0]) for step in STEPS])
def test_a_character_comes_with_its_last_byte(content, texts):
    feed = FACTORY(SHOW, ()).feed
    assert [feed(BYTE_TOKENS[byte]) for byte in content] == texts
