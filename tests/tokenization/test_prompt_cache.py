"""What the cache of prompts holds, and what it takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest
from backedge.base.limits import LARGEST_SHARE, MAX_NUMBERS
from backedge.tokenization.prompt_cache import PromptCache, TokenIds, measure
from hypothesis import given
from hypothesis import strategies as st

from tests.support import run_in_threads

CAPACITY = 20_000


def part(number: int, length: int = 500) -> str:
    return str(number).zfill(length)


def ids(number: int, length: int = 50) -> list[int]:
    return [300 + number] * length


def add(cache: PromptCache, *numbers: int, owner: int = 1) -> None:
    for number in numbers:
        cache.add(owner, [part(number)], [ids(number)])


def known(cache: PromptCache, numbers: Sequence[int], owner: int = 1) -> list[int]:
    found = cache.find(owner, [part(number) for number in numbers])
    assert all(
        entry in (None, tuple(ids(number))) for number, entry in zip(numbers, found, strict=True)
    )
    return [number for number, entry in zip(numbers, found, strict=True) if entry is not None]


def held(cache: PromptCache) -> int:
    """Return what the entries take, all of which have been asked for a second time."""
    owners = range(1, 4)
    for _ in range(2):
        found = [(owner, number) for owner in owners for number in known(cache, range(97), owner)]
    return sum(measure((owner, part(number)), tuple(ids(number))) for owner, number in found)


def test_it_gives_back_what_was_added() -> None:
    cache = PromptCache(CAPACITY)
    add(cache, 1, 2)
    for _ in range(3):
        assert known(cache, [1, 2, 3]) == [1, 2]


def test_tokenizers_do_not_share_parts() -> None:
    cache = PromptCache(CAPACITY)
    one, other = cache.add_owner(), cache.add_owner()
    add(cache, 1, owner=one)
    assert known(cache, [1], owner=other) == []


def test_what_was_not_used_longest_goes_first() -> None:
    cache = PromptCache(CAPACITY)
    add(cache, *range(5))
    assert known(cache, [0, 2]) == [0, 2]
    cache.capacity = cache.size
    add(cache, 5)
    cache.capacity = CAPACITY
    assert known(cache, range(6)) == [0, 2, 3, 4, 5]


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "find", "forget"]), st.integers(0, 60), st.integers(1, 3))
    )
)
def test_its_size_is_that_of_its_entries_and_never_above_its_capacity(
    steps: list[tuple[str, int, int]],
) -> None:
    cache = PromptCache(CAPACITY)
    for step, number, owner in steps:
        if step == "add":
            add(cache, number, owner=owner)
        elif step == "find":
            known(cache, range(number), owner=owner)
        else:
            cache.forget_owner(owner)
            assert known(cache, range(61), owner=owner) == []
        assert cache.size <= CAPACITY
    assert held(cache) == cache.size


def test_a_prompt_that_would_fill_it_is_not_remembered() -> None:
    cache = PromptCache(CAPACITY)
    add(cache, 1)
    cache.add(1, [part(2, CAPACITY // LARGEST_SHARE)], [ids(2)])
    cache.add(1, [part(number) for number in range(3, 40)], [ids(n) for n in range(3, 40)])
    assert known(cache, range(40)) == [1]


@pytest.mark.parametrize("uses", [0, 1])
def test_it_takes_no_more_memory_than_it_says(uses: int) -> None:
    cache = PromptCache(50_000_000)
    cache.add(2, ["the largest id"], [[151_000]])
    cache.find(2, ["the largest id"])
    cache.forget_owner(2)
    parts = [part(number, 2_000) for number in range(2_000)]
    lists = [list(range(number * 70, number * 70 + 500)) for number in range(2_000)]
    tracemalloc.start()
    cache.add(1, [text + "x" for text in parts], lists)
    for _ in range(uses):
        for text in parts:
            cache.find(1, [text + "x"])
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cache.size * 0.9 < taken < cache.size * 1.02


def test_ids_that_are_too_large_to_be_shared_are_right_and_take_nothing_more() -> None:
    cache = PromptCache(CAPACITY)
    large = [MAX_NUMBERS, 7, 2**32 - 1]
    cache.add(1, ["text"], [large])
    tracemalloc.start()
    for _ in range(2):
        assert cache.find(1, ["text"]) == [tuple(large)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MAX_NUMBERS


def test_a_model_that_goes_while_the_cache_is_in_use_is_forgotten_with_the_next_call() -> None:
    cache = PromptCache(CAPACITY)
    add(cache, 1)

    class Text(str):
        """Has a garbage collection take place while the cache looks for it."""

        __slots__ = ()

        def __hash__(self) -> int:
            cache.forget_owner(1)
            return super().__hash__()

    cache.find(2, [Text("a")])
    assert cache.size > 0
    add(cache, 2, owner=2)
    assert known(cache, [1]) == []
    assert known(cache, [2], owner=2) == [2]


def test_threads_get_right_ids_while_parts_are_dropped() -> None:
    cache = PromptCache(CAPACITY)
    wrong: list[TokenIds] = []

    def use(seed: int) -> None:
        for step in range(2_000):
            number = (step * 7 + seed) % 97
            [found] = cache.find(1, [part(number)])
            if found is None:
                add(cache, number)
            elif found != tuple(ids(number)):
                wrong.append(found)

    run_in_threads(use)
    assert not wrong
    assert cache.size <= CAPACITY
    assert held(cache) == cache.size


def test_it_counts_parts_and_tokens_and_estimates_the_time_saved() -> None:
    cache = PromptCache(CAPACITY)
    cache.count([None, None], 100, 0.1)
    cache.count([(1,) * 300, None], 100, 0.1)
    counts = cache.counts
    assert (counts.hits, counts.misses) == (1, 3)
    assert (counts.hit_tokens, counts.missed_tokens) == (300, 200)
    assert counts.seconds == pytest.approx(0.2)
    assert counts.saved_seconds == pytest.approx(0.3)
