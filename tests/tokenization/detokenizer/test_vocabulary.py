"""What the parsers learn of a vocabulary."""

import pytest
from backedge.tokenization.detokenizer.vocabulary import (
    fast_tokenizer,
    read_vocabulary,
    special_ids,
)
from transformers import PreTrainedTokenizerFast

from benchmarks.tokenizer_kinds import DecodeOnly
from tests.support import encode, tiny_tokenizer

TRANSFORMERS = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer())
[END], [THINK] = encode("<|im_end|>"), encode("<think>")


class Wrapper:
    """A tokenizer that keeps a fast one, as `BaseTokenizer` subclasses may."""

    def __init__(self, inner):
        self._tokenizer = inner


@pytest.mark.parametrize("tokenizer", [tiny_tokenizer(), TRANSFORMERS, Wrapper(tiny_tokenizer())])
def test_a_fast_tokenizer_is_found(tokenizer):
    found = fast_tokenizer(tokenizer)
    assert found is not None
    assert found.to_str() == tiny_tokenizer().to_str()


@pytest.mark.parametrize("tokenizer", [Wrapper(None), object()])
def test_other_objects_have_none(tokenizer):
    assert fast_tokenizer(tokenizer) is None
    assert special_ids(tokenizer) == frozenset()


@pytest.mark.parametrize("tokenizer", [tiny_tokenizer(), TRANSFORMERS])
def test_markers_are_added_tokens(tokenizer):
    vocabulary = read_vocabulary(tokenizer)
    assert (vocabulary.ids["<|im_end|>"], vocabulary.ids["<think>"]) == (END, THINK)
    assert "a" not in vocabulary.ids
    assert END in vocabulary.special
    assert THINK not in vocabulary.special
    assert vocabulary.decode([THINK, *encode("a"), END]) == "<think>a<|im_end|>"


def test_of_other_objects_only_special_tokens_are_markers():
    vocabulary = read_vocabulary(DecodeOnly(tiny_tokenizer()))
    assert vocabulary.ids["<|im_end|>"] == END
    assert "<think>" not in vocabulary.ids
    assert vocabulary.special == special_ids(tiny_tokenizer())
