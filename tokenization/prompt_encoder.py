"""Encodes prompts; takes parts that earlier prompts contained from a cache.

Turn 20 of a conversation repeats the text of turn 19 and adds little. `cut_points` cuts the text
where the concatenated ids of the parts equal those of the whole; `prompt_cache` holds their ids.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence

from tokenizers import Encoding, Tokenizer

from .cut_points import CutPoints, NoCutsError, find_cut_points
from .prompt_cache import PromptCache, TokenIds

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
