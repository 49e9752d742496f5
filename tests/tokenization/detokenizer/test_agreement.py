"""The check of a detokenizer against the tokenizer's own decode()."""

import pytest
from backedge.tokenization.detokenizer.detokenizer_selection import (
    SAMPLE_TOKENS,
    SAMPLES,
    find_difference,
    is_streamed_text,
    sample_sequences,
    vocabulary_ids,
)
from backedge.tokenization.detokenizer.offsets import StreamDetokenizers
from backedge.tokenization.detokenizer.tables import ByteLevelDetokenizers

from benchmarks.tokenizer_kinds import DecodeOnly, llama
from tests.support import tiny_tokenizer


@pytest.mark.parametrize(
    ("text", "whole", "expected"),
    [
        ("abc", "abc", True),
        ("ab", "abc", False),
        ("a.c", "abc", False),
        ("a", "a\ufffd\ufffd", True),
        ("a\ufffd\ufffdb", "a\ufffd\ufffdb", True),
        ("aXb", "a\ufffd\ufffdb", True),
        ("aXYZb", "a\ufffd\ufffdb", False),
        ("ab", "a\ufffdb", False),
        ("a\n\ufffd", "a\ufffd\ufffd", True),
    ],
)
def test_the_text_of_a_stream_may_differ_in_invalid_bytes_only(text, whole, expected):
    assert is_streamed_text(text, whole) is expected


def test_a_detokenizer_of_another_form_differs():
    assert find_difference(StreamDetokenizers(llama()), llama()) is None
    difference = find_difference(ByteLevelDetokenizers(llama()), llama())
    assert difference is not None
    assert " instead of " in difference


def test_an_error_is_a_difference():
    class Raising(DecodeOnly):
        def decode(self, token_ids, skip_special_tokens=True):
            raise KeyError("no such token")

    tokenizer = Raising(tiny_tokenizer())
    assert find_difference(ByteLevelDetokenizers(tiny_tokenizer()), tokenizer) == (
        "KeyError: 'no such token'"
    )


@pytest.mark.parametrize("tokenizer", [tiny_tokenizer(), llama(), DecodeOnly(tiny_tokenizer())])
def test_samples_are_the_same_for_each_call(tokenizer):
    samples = list(sample_sequences(tokenizer))
    assert samples == list(sample_sequences(tokenizer))
    assert len(samples) == SAMPLES
    known = set(vocabulary_ids(tokenizer))
    assert all(len(sample) >= SAMPLE_TOKENS and set(sample) <= known for sample in samples)


def test_samples_of_a_vocabulary_with_byte_tokens_spell_characters_of_every_length():
    for tokenizer in (tiny_tokenizer(), llama()):
        texts = [tokenizer.decode(token_ids) for token_ids in sample_sequences(tokenizer)]
        # Invalid bytes next to them may spoil a few.
        assert sum("é世😀" in text for text in texts) > SAMPLES / 2


def test_an_object_without_a_vocabulary_gives_no_samples():
    class Bare:
        def decode(self, token_ids, *, skip_special_tokens):
            return ""

    assert list(sample_sequences(Bare())) == []
