"""Tokenizers of transformers, encoded past transformers: the same ids, or not at all."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from backedge.templates.transformers_tokenizers import make_encoder
from backedge.tokenization.prompt_cache import PromptCache
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from vllm.tokenizers import get_tokenizer
from vllm.tokenizers.hf import maybe_make_thread_pool

from benchmarks.samples.tokenizers import mistral
from tests.support import TINY_MODEL

TEXT = "<|im_start|>user\n" + "words and 12 \u4e16\u754c " * 500 + "<|im_end|>\n<|im_start|>"
LOADERS = {
    "transformers": lambda: AutoTokenizer.from_pretrained(TINY_MODEL),
    "vLLM": lambda: get_tokenizer(str(TINY_MODEL)),
    "vLLM, for threads": lambda: maybe_make_thread_pool(
        copy.copy(get_tokenizer(str(TINY_MODEL))), 2
    ),
}


@pytest.fixture(params=LOADERS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return LOADERS[request.param]()


def test_the_ids_are_the_tokenizers_own(tokenizer: Any) -> None:
    expected = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    cache = PromptCache()
    encoder = make_encoder(tokenizer, cache)
    assert encoder is not None
    for number in range(1, 4):
        assert encoder.encode(TEXT * number) == expected * number
    assert (cache.counts.misses, cache.counts.hits) == (2, 4)


class Shouting(PreTrainedTokenizerFast):
    """A model's own class, which changes texts."""

    def _encode_plus(self, text: str, *args: object, **options: object) -> Any:
        return super()._encode_plus(text.upper(), *args, **options)


def test_a_tokenizer_with_a_way_of_its_own_is_left_alone() -> None:
    own = AutoTokenizer.from_pretrained(TINY_MODEL)
    assert make_encoder(Shouting(tokenizer_object=own.backend_tokenizer), PromptCache()) is None
    assert make_encoder(mistral("tekken"), PromptCache()) is None


def test_one_that_reads_special_tokens_as_text_is_left_alone() -> None:
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL, split_special_tokens=True)
    assert make_encoder(tokenizer, PromptCache()) is None


def test_one_that_gives_other_ids_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    monkeypatch.setattr(type(tokenizer), "__call__", lambda *_, **__: {"input_ids": [1]})
    assert make_encoder(tokenizer, PromptCache()) is None


def test_truncation_left_over_from_training_is_no_reason() -> None:
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    tokenizer.backend_tokenizer.enable_truncation(5)
    encoder = make_encoder(tokenizer, PromptCache())
    assert encoder is not None
    assert encoder.why_uncached is None
