"""The example of a byte-pair tokenizer keeps the contract, and fastai takes it."""

import pytest
from backedge.testing.tokenizer_kit import contract_tests

from examples.byte_pair_tokenizer import BytePairTokenizer
from tests.support import TINY_MODEL

TEXTS = ["Call get_weather for Paris.", "Grüße <|im_end|>"]

test_the_contract = contract_tests(lambda: BytePairTokenizer(str(TINY_MODEL)))


def test_fastai_takes_it():
    core = pytest.importorskip("fastai.text.core")
    own = BytePairTokenizer(str(TINY_MODEL))
    theirs = core.Tokenizer(own, rules=[])
    for text in TEXTS:
        tokens = list(theirs(text))
        assert tokens == next(iter(own([text])))
        assert "".join(tokens) == text
