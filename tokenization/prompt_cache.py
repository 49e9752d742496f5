"""Encodes prompts; takes parts that earlier prompts contained from a cache.

Turn 20 of a conversation repeats the text of turn 19 and adds little. `cut_points` cuts the text
where the concatenated ids of the parts equal those of the whole; `PromptCache` holds their ids.

`PromptLimit` rejects prompts that are far too long before all of them is tokenized. Tokenizing 20
million characters takes seconds and gigabytes, in vain if the model can read only a
hundredth of them. So the beginning of a long text is tokenized first, then four times as much.
Cutting a text changes its tokens only near the cut, so a beginning with more than twice the tokens
that the model can read is proof.

`PromptCache` holds the ids of the most recently used parts, in bounded memory, for all models of a
process. The part's text is the key. It is compared, so hash collisions do no harm.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
from tokenizers import Encoding, Tokenizer

from ..base.errors import RequestError, show
from ..base.limits import (
    CHARACTERS_PER_TOKEN,
    LARGEST_SHARE,
    MAX_NUMBERS,
    MAX_PROMPT_CHARACTERS,
    PROMPT_CACHE_MB,
)
from .cut_points import CutPoints, NoCutsError, find_cut_points

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


STEP = 4


class PromptLimit(msgspec.Struct, frozen=True):
    """The longest prompt of a model. context_length: in tokens; None if unknown."""

    context_length: int | None = None

    def check(self, text: str, count_tokens: Callable[[str], int]) -> None:
        """Raise `RequestError` for a text that cannot fit or cannot be encoded.

        count_tokens: returns the number of tokens of a text.
        """
        if len(text) > MAX_PROMPT_CHARACTERS:
            limit = f"at most {MAX_PROMPT_CHARACTERS:,} are allowed"
            raise _too_long(text, limit)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = show(text[error.start : error.end])
            problem = f"must not contain half of a surrogate pair, {half}"
            raise RequestError("messages", problem) from None
        if self.context_length is None:
            return
        size = self.context_length * CHARACTERS_PER_TOKEN
        while size < len(text):
            if count_tokens(text[:size]) > 2 * self.context_length:
                raise _too_long(text, describe_longest(self.context_length))
            size *= STEP


def describe_longest(context_length: int) -> str:
    """Describe the longest prompt for an error. context_length: in tokens."""
    return (
        f"at most {context_length - 1} tokens are allowed, since the model's context is "
        f"{context_length} tokens and the answer needs at least one"
    )


def _too_long(text: str, limit: str) -> RequestError:
    return RequestError("messages", f"has {len(text):,} characters; {limit}")


# Minimum length of a part in characters, some 500 tokens. Each turn tokenizes its new text together
# with the last turn's end, of about this length; and looking up a part takes 2 us.
PART_CHARACTERS = 2_048


class PromptEncoder:
    """Encodes with `tokenizer`, without adding special tokens.

    tokenizer: must not be changed afterwards.
    cache: None to cache nothing.
    why_uncached: the reason why nothing is cached, as text; None if the cache is used.
    """

    def __init__(self, tokenizer: Tokenizer, cache: PromptCache | None = None) -> None:
        self._tokenizer = tokenizer
        self._cache = cache or PromptCache(0)
        self._cuts: CutPoints | None = None
        self.why_uncached: str | None = "the prompt cache is switched off"
        if not self._cache.capacity:
            return
        try:
            self._cuts = find_cut_points(tokenizer)
        except NoCutsError as error:
            self.why_uncached = error.reason
            return
        self.why_uncached = None
        self._owner = self._cache.add_owner()
        weakref.finalize(self, self._cache.forget_owner, self._owner).atexit = False

    def encode(self, text: str) -> list[int]:
        """Return the token ids of rendered text, which contains its special tokens as text."""
        if self._cuts is None or len(text) < PART_CHARACTERS:
            return self.encode_whole(text)
        *parts, end = self._cuts.split(text, PART_CHARACTERS)
        if not parts:
            return self.encode_whole(text)
        known = self._cache.find(self._owner, parts)
        missing = [part for part, found in zip(parts, known, strict=True) if found is None]
        start = time.perf_counter()
        new = [encoding.ids for encoding in self._encode_batch([*missing, end])]
        seconds = time.perf_counter() - start
        self._cache.count(known, sum(map(len, new)), seconds)
        if missing:
            self._cache.add(self._owner, missing, new[:-1])
        return _join(known, new)

    def encode_whole(self, text: str) -> list[int]:
        """Return the same token ids, without the cache."""
        # A batch of one, because unlike `encode` it releases the interpreter lock all the time.
        [encoding] = self._encode_batch([text])
        token_ids: list[int] = encoding.ids
        return token_ids

    def _encode_batch(self, texts: Sequence[str]) -> list[Encoding]:
        encodings: list[Encoding] = self._tokenizer.encode_batch_fast(
            texts, add_special_tokens=False
        )
        return encodings


def _join(known: Sequence[TokenIds | None], new: Sequence[list[int]]) -> list[int]:
    """Return the ids of all parts. new: ids of the unknown parts, in order, and of the end."""
    rest = iter(new)
    token_ids: list[int] = []
    for found in known:
        token_ids += next(rest) if found is None else found
    token_ids += next(rest)
    return token_ids
