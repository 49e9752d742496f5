"""Prompts have the same ids with the cache as without: whatever the tokenizer, in any order."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from typing import Any

import pytest
from backedge.tokenization.prompt_cache import PART_CHARACTERS, PromptCache, PromptEncoder
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.support import TINY_MODEL, run_in_threads
from tests.tokenization.cut_kinds import MARKERS, NAMES, PIECES, load

Turns = list[tuple[str, str]]
WORDS = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join)
TURNS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6)
TEMPLATES = [
    "{start}user\n{question}{end}\n{start}assistant\n{answer}{end}\n",
    "[INST] {question} [/INST]{answer}{end}",
    "{question} {start}{answer}{end}",
    "{start}{question}{answer}",
    "<s>[INST] {question} [/INST] {answer}</s>",
]
# Small parts, so that short texts have many.
SMALL = 16


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backedge.tokenization.prompt_cache.PART_CHARACTERS", SMALL)


def write(template: str, turns: Turns) -> str:
    return "".join(
        template.format(start=MARKERS[0], end=MARKERS[1], question=question, answer=answer)
        for question, answer in turns
    )


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", NAMES)
def test_growing_conversations(name: str) -> None:
    encoder = PromptEncoder(load(name), PromptCache())
    small = PromptEncoder(load(name), PromptCache(6_000))  # drops parts all the time
    plain = PromptEncoder(load(name))
    assert encoder.why_uncached is None

    @settings(max_examples=40)
    @given(st.sampled_from(TEMPLATES), TURNS)
    def check(template: str, turns: Turns) -> None:
        for number in range(1, len(turns) + 1):
            text = write(template, turns[:number])
            expected = plain.encode(text)
            assert encoder.encode(text) == expected
            assert small.encode(text) == expected

    check()


def conversation(turns: int, characters: int = PART_CHARACTERS) -> str:
    texts = [f"{number} and words " * (characters // 10) for number in range(turns)]
    return write(TEMPLATES[0], [(text, "yes") for text in texts])


class CountingTokenizer:
    """A tokenizer that counts the characters that it reads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def encode_batch_fast(self, texts: Sequence[str], **options: bool) -> Any:
        self.read += sum(map(len, texts))
        return self._tokenizer.encode_batch_fast(texts, **options)


def test_a_turn_costs_what_is_new_in_it() -> None:
    tokenizer: Any = CountingTokenizer(load("Qwen"))
    encoder = PromptEncoder(tokenizer, PromptCache())
    text = ""
    for number in range(20):
        new = write(TEMPLATES[0], [("a question " * 50, f"answer {number} " * 100)])
        text += new
        tokenizer.read = 0
        assert encoder.encode(text) == load("Qwen").encode(text, add_special_tokens=False).ids
        assert tokenizer.read <= len(new) + PART_CHARACTERS + 200


def test_conversations_with_one_beginning_share_it() -> None:
    cache = PromptCache()
    encoder = PromptEncoder(load("Qwen"), cache)
    system = conversation(5)
    encoder.encode(system + "one" + MARKERS[1])
    encoder.encode(system + "two" + MARKERS[1])
    assert cache.counts.hits == cache.counts.misses == 5


def test_a_changed_beginning_does_not_hide_what_follows_a_long_message() -> None:
    cache = PromptCache()
    encoder = PromptEncoder(load("Qwen"), cache)
    rest = conversation(5)
    encoder.encode(MARKERS[0] + "at noon" + rest)
    encoder.encode(MARKERS[0] + "somewhat later" + rest)
    assert cache.counts.hits == 4


def test_short_prompts_and_those_without_a_marker_are_not_looked_for() -> None:
    cache = PromptCache()
    encoder = PromptEncoder(load("Qwen"), cache)
    for text in ("", "a question", "words " * 10_000, MARKERS[0] + "words " * 10_000):
        assert encoder.encode(text) == encoder.encode_whole(text)
    assert cache.counts.hits == cache.counts.misses == cache.size == 0


def test_what_is_asked_for_whole_is_not_remembered() -> None:
    cache = PromptCache()
    text = conversation(5)
    encoder = PromptEncoder(load("Qwen"), cache)
    assert encoder.encode_whole(text) == load("Qwen").encode(text, add_special_tokens=False).ids
    assert cache.size == 0


def test_many_long_prompts_stay_within_the_capacity() -> None:
    cache = PromptCache(100_000)
    encoder = PromptEncoder(load("Qwen"), cache)
    for seed in range(30):
        random.seed(seed)
        text = conversation(3) + str(random.random()) + conversation(2)
        assert encoder.encode(text) == encoder.encode_whole(text)
        assert cache.size <= 100_000


def test_threads_get_the_same_ids() -> None:
    encoder = PromptEncoder(load("Llama 2"), PromptCache(200_000))
    texts = [conversation(turns, 300 * number) for number in range(1, 6) for turns in range(1, 8)]
    expected = [encoder.encode_whole(text) for text in texts]
    wrong: list[int] = []

    def use(seed: int) -> None:
        chosen = random.Random(seed).choices(range(len(texts)), k=60)
        wrong.extend(n for n in chosen if encoder.encode(texts[n]) != expected[n])

    run_in_threads(use)
    assert not wrong


def test_the_parts_of_a_model_that_is_gone_are_dropped() -> None:
    cache = PromptCache()
    encoder, other = (PromptEncoder(load(name), cache) for name in ("Qwen", "Llama 3"))
    for each in (encoder, other):
        each.encode(conversation(5))
    size = cache.size
    del encoder, each
    gc.collect()
    assert 0 < cache.size < size
    assert other.encode(conversation(5)) == other.encode_whole(conversation(5))
    assert cache.counts.hits == 5


@pytest.mark.parametrize(
    ("cache", "reason"), [(None, "switched off"), (PromptCache(0), "switched off")]
)
def test_it_says_why_nothing_is_remembered(cache: PromptCache | None, reason: str) -> None:
    assert reason in str(PromptEncoder(load("Qwen"), cache).why_uncached)


def test_a_tokenizer_that_is_not_trusted_is_used_without_the_cache() -> None:
    tokenizer = Tokenizer.from_file(str(TINY_MODEL / "tokenizer.json"))
    tokenizer.enable_truncation(10)
    cache = PromptCache()
    encoder = PromptEncoder(tokenizer, cache)
    assert "truncation" in str(encoder.why_uncached)
    assert len(encoder.encode(conversation(5))) == 10
    assert cache.size == 0
