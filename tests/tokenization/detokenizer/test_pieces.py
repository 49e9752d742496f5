"""The bytes that pieces of a vocabulary stand for."""

import pytest
from backedge.tokenization.detokenizer.vocabulary import (
    BYTE_LEVEL,
    byte_level_bytes,
    decoder_steps,
    lookup_piece,
    piece_bytes,
    read_decoder,
)
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from benchmarks.tokenizer_kinds import KINDS, llama
from tests.support import tiny_tokenizer


def test_byte_level_alphabet_is_a_bijection():
    assert sorted(BYTE_LEVEL.values()) == list(range(256))


@pytest.mark.parametrize(
    ("piece", "decoder", "expected"),
    [
        ("Ġa", {"type": "ByteLevel"}, b" a"),
        ("▁a", {"type": "Metaspace"}, b" a"),
        ("##ing", {"type": "WordPiece", "prefix": "##"}, b"ing"),
        ("plain", {}, b"plain"),
        ("<0xE4>", {"type": "Sequence", "decoders": [{"type": "ByteFallback"}]}, b"\xe4"),
        ("\u2581<0xE4>", {"type": "Sequence", "decoders": [{"type": "ByteFallback"}]}, b" <0xE4>"),
    ],
)
def test_piece_bytes(piece, decoder, expected):
    assert piece_bytes(piece, decoder) == expected


@given(st.binary(max_size=20))
def test_every_sequence_of_bytes_can_be_written(content):
    alphabet = {byte: char for char, byte in BYTE_LEVEL.items()}
    assert byte_level_bytes("".join(alphabet[byte] for byte in content)) == content


def test_a_piece_outside_the_alphabet_is_plain_text():
    assert byte_level_bytes("<|世|>") == "<|世|>".encode()


@pytest.mark.parametrize("token_id", [-1, 10**6, 2**40])
def test_an_unknown_id_has_no_piece(token_id):
    assert lookup_piece(tiny_tokenizer(), token_id) is None


def test_the_decoder_is_that_of_tokenizer_json():
    assert read_decoder(tiny_tokenizer())["type"] == "ByteLevel"
    assert read_decoder(Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))) == {}
    steps = [step["type"] for step in decoder_steps(read_decoder(llama()))]
    assert steps == ["Replace", "ByteFallback", "Fuse", "Strip"]
    assert decoder_steps({}) == []
    metaspace = read_decoder(KINDS["unigram"].tokenizer())
    assert decoder_steps(metaspace) == [metaspace]
