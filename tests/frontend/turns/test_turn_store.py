"""Memory for turns: bounded, the last ones stay."""

import functools
import tracemalloc

import pytest
from backedge.base.limits import MAX_TURN_BYTES
from backedge.frontend.turns.turn_store import ENTRY_BYTES, Turn, TurnStore, pack_token_ids
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.sampled_from([bytes([number]) * 32 for number in range(6)])
TURNS = st.builds(
    Turn,
    st.text(max_size=50),
    st.integers(0, 9),
    st.binary(max_size=32),
    st.lists(st.integers(0, 2**32 - 1), max_size=9).map(pack_token_ids),
)


@given(st.lists(st.tuples(KEYS, TURNS)), st.integers(0, 2_000))
def test_the_size_is_that_of_what_is_kept(added, capacity):
    store = TurnStore(capacity)
    for key, turn in added:
        store.add(key, turn)
        assert 0 <= store.size <= capacity
    keys = {key for key, _ in added}
    found = {key: turn for key in keys if (turn := store.find(key)) is not None}
    for key, turn in found.items():
        answers = [each for other, each in added if other == key]
        # What was forgotten is unknown, so the turn is that of some last answers.
        assert turn in (functools.reduce(Turn.join, answers[at:]) for at in range(len(answers)))
    assert store.size >= len(found) * ENTRY_BYTES


@pytest.mark.parametrize("size", [10, 1_000, 100_000])
def test_memory_stays_below_the_capacity(size):
    capacity = 1 << 22
    tracemalloc.start()
    try:
        store = TurnStore(capacity)
        before, _ = tracemalloc.get_traced_memory()
        for number in range(3 * capacity // (size + ENTRY_BYTES)):
            store.add(number.to_bytes(32), Turn("x" * size, generated=b"abcd"))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before <= capacity


def test_what_was_used_last_stays():
    turn = Turn("x")
    store = TurnStore(3 * (ENTRY_BYTES + 20))
    for key in (b"a", b"b", b"c"):
        store.add(key, turn)
    assert store.find(b"a") == turn
    store.add(b"d", turn)
    assert [store.find(key) for key in (b"a", b"b", b"c", b"d")] == [turn, None, turn, turn]


def test_answers_that_differ_have_only_in_common_what_both_have():
    first, other_ids = Turn("x", 3, b"p", b"abcd"), Turn("x", 3, b"p", b"efgh", hidden=True)
    assert first.join(first) == first
    assert first.join(other_ids) == other_ids.join(first) == Turn("x", hidden=True)
    both = first.join(Turn("y"))
    assert both == Turn("", ambiguous=True)
    assert both.join(first) == first.join(both) == both


def test_a_turn_that_is_too_large_is_not_kept():
    store = TurnStore(1 << 30)
    assert not store.add(b"a", Turn("x" * MAX_TURN_BYTES))
    assert (store.size, store.find(b"a")) == (0, None)


def test_token_ids_come_back():
    ids = [0, 5, 151_645, 2**32 - 1]
    assert Turn("", generated=pack_token_ids(ids)).token_ids == ids
