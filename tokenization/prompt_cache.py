"""Remembers the token ids of parts of prompts, in bounded memory.

A conversation comes back with every turn, longer by one question and one answer; what came before
has the ids that it had. `PromptEncoder` cuts prompts into parts of some hundred tokens, and this
cache holds the ids of the parts that were used last, of all models of a process.

The part's text is the key: it is compared, so a collision of hashes does no harm.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

TokenIds = tuple[int, ...]
# Four bytes for an id until somebody asks for the part a second time. Then eight, a reference to a
# number that all entries share: a list is made of these in a tenth of the time.
Entry: TypeAlias = "array[int] | TokenIds"
Key = tuple[int, str]

# What an entry takes besides its text and its ids: the key's tuple, its place in the dict and in
# the order of use.
ENTRY_BYTES = 300
# Numbers are shared below this; they take 40 bytes each.
MAX_NUMBERS = 1_048_576
# A prompt whose new parts need more than this fraction of the cache is not remembered: it would
# take the place of many others.
LARGEST_SHARE = 4
DEFAULT_MB = 256
BYTES_PER_MB = 1_048_576


class CacheCounts(msgspec.Struct):
    """What a cache has done so far.

    hits, misses: parts that it knew, and that it did not. hit_tokens, missed_tokens: their tokens;
        missed ones include the ends of prompts, which are never looked for.
    seconds: spent in tokenizing. saved_seconds: what the hits' tokens would have taken, by the
        time that a missed token has taken on average until then.
    """

    hits: int = 0
    misses: int = 0
    hit_tokens: int = 0
    missed_tokens: int = 0
    seconds: float = 0.0
    saved_seconds: float = 0.0


class PromptCache:
    """The ids of parts of prompts. capacity: in bytes; 0 for a cache that remembers nothing.

    The methods may be called by several threads at once.
    """

    def __init__(self, capacity: int = DEFAULT_MB * BYTES_PER_MB) -> None:
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
        """What the entries take, in bytes."""
        return self._size

    def add_owner(self) -> int:
        """Return a number for a tokenizer, whose parts are its own."""
        with self._lock:
            self._owners += 1
            return self._owners

    def forget_owner(self, owner: int) -> None:
        """Drop what belongs to a tokenizer that is gone.

        The garbage collector may call this anywhere, even in a method of this very object. Then
        the next call of one does the work.
        """
        self._gone.append(owner)
        if self._lock.acquire(blocking=False):
            try:
                self._drop_gone()
            finally:
                self._lock.release()

    def find(self, owner: int, parts: Sequence[str]) -> list[TokenIds | None]:
        """Return the ids of each part; None for those that are not known."""
        return [self._find((owner, part)) for part in parts]

    def _find(self, key: Key) -> TokenIds | None:
        # A lock for each part: nobody waits for another prompt of a million tokens.
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
        """Remember the ids of parts, unless these take too much of the cache."""
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
        """Return ids as numbers that all entries share; None for ids that are too large."""
        try:
            return tuple(map(self._numbers.__getitem__, token_ids))
        except IndexError:
            largest = max(token_ids)
        if largest >= MAX_NUMBERS:
            return None
        self._numbers.extend(range(len(self._numbers), largest + 1))
        return self._make_numbers(token_ids)

    def count(self, known: Sequence[TokenIds | None], missed_tokens: int, seconds: float) -> None:
        """Count a prompt: what `find` returned for it, and what was tokenized in `seconds`."""
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
    """Return what an entry takes, in bytes."""
    return sys.getsizeof(key[1]) + sys.getsizeof(found) + ENTRY_BYTES
