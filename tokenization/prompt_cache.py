"""Caches the token ids of parts of prompts in bounded memory.

Each turn of a conversation repeats the earlier text, whose ids do not change, and adds a question
and an answer. `PromptEncoder` cuts prompts into parts of some hundred tokens; this cache holds the
ids of the most recently used parts, for all models of a process.

The part's text is the key. It is compared, so hash collisions do no harm.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from ..base.limits import LARGEST_SHARE, MAX_NUMBERS, PROMPT_CACHE_MB

TokenIds = tuple[int, ...]
# An id takes four bytes until its part is requested a second time. Then it takes eight, a reference
# to a number that all entries share, from which a list is made in a tenth of the time.
Entry: TypeAlias = "array[int] | TokenIds"
Key = tuple[int, str]

# Memory of an entry besides its text and ids: the key's tuple, its place in the dict and in the
# order of use.
ENTRY_BYTES = 300
BYTES_PER_MB = 1_048_576


class CacheCounts(msgspec.Struct):
    """Counters of a cache.

    hits, misses: parts found and not found. hit_tokens, missed_tokens: their tokens; missed
        ones include the ends of prompts, which are never cached.
    seconds: spent in tokenizing. saved_seconds: estimate for the hits' tokens, from the mean
        time of a missed token so far.
    """

    hits: int = 0
    misses: int = 0
    hit_tokens: int = 0
    missed_tokens: int = 0
    seconds: float = 0.0
    saved_seconds: float = 0.0


class PromptCache:
    """The ids of parts of prompts. capacity: in bytes; 0 to cache nothing.

    Several threads may call the methods at once.
    """

    def __init__(self, capacity: int = PROMPT_CACHE_MB * BYTES_PER_MB) -> None:
        self.capacity = capacity
        self.counts = CacheCounts()
        self._size = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._gone: deque[int] = deque()
        self._owners = 0
        self._numbers: list[int] = []

    @property
    def size(self) -> int:
        """Memory of all entries in bytes."""
        return self._size

    def add_owner(self) -> int:
        """Return a number for a tokenizer, to keep its parts separate."""
        with self._lock:
            self._owners += 1
            return self._owners

    def forget_owner(self, owner: int) -> None:
        """Drop the parts of a tokenizer that no longer exists.

        The garbage collector may call this at any point, even within a method of this object, so
        the next method call does the work.
        """
        self._gone.append(owner)
        if self._lock.acquire(blocking=False):
            try:
                self._drop_gone()
            finally:
                self._lock.release()

    def find(self, owner: int, parts: Sequence[str]) -> list[TokenIds | None]:
        """Return the ids of each part; None for unknown parts."""
        return [self._find((owner, part)) for part in parts]

    def _find(self, key: Key) -> TokenIds | None:
        # A lock per part, so that no request waits for another prompt of a million tokens.
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            if not isinstance(found, array):
                return found
            numbers = self._make_numbers(found)
            if numbers is not None:
                self._put(key, numbers)
            return numbers or tuple(found)

    def add(self, owner: int, parts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Cache the ids of parts, unless they take too much of the cache."""
        entries = [
            ((owner, part), array("I", found)) for part, found in zip(parts, ids, strict=True)
        ]
        if sum(measure(*entry) for entry in entries) * LARGEST_SHARE > self.capacity:
            return
        for entry in entries:
            with self._lock:
                self._drop_gone()
                self._put(*entry)

    def _put(self, key: Key, found: Entry) -> None:
        if key in self._entries:
            self._drop(key)
        self._entries[key] = found
        self._size += measure(key, found)
        while self._size > self.capacity:
            self._drop(next(iter(self._entries)))

    def _make_numbers(self, token_ids: array[int]) -> TokenIds | None:
        """Return ids as numbers that all entries share; None if an id is too large."""
        try:
            return tuple(map(self._numbers.__getitem__, token_ids))
        except IndexError:
            largest = max(token_ids)
        if largest >= MAX_NUMBERS:
            return None
        self._numbers.extend(range(len(self._numbers), largest + 1))
        return self._make_numbers(token_ids)

    def count(self, known: Sequence[TokenIds | None], missed_tokens: int, seconds: float) -> None:
        """Count a prompt: the results of `find`, and the tokens tokenized in `seconds`."""
        hits = [found for found in known if found is not None]
        hit_tokens = sum(map(len, hits))
        counts = self.counts
        with self._lock:
            counts.hits += len(hits)
            counts.misses += len(known) - len(hits)
            counts.hit_tokens += hit_tokens
            counts.missed_tokens += missed_tokens
            counts.seconds += seconds
            counts.saved_seconds += hit_tokens * counts.seconds / max(1, counts.missed_tokens)

    def _drop_gone(self) -> None:
        while self._gone:
            owner = self._gone.popleft()
            for key in [key for key in self._entries if key[0] == owner]:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        self._size -= measure(key, self._entries.pop(key))


def measure(key: Key, found: Entry) -> int:
    """Return the memory of an entry in bytes."""
    return sys.getsizeof(key[1]) + sys.getsizeof(found) + ENTRY_BYTES
