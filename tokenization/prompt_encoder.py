"""Encodes prompts; takes parts that earlier prompts contained from a cache.

Turn 20 of a conversation repeats the text of turn 19 and adds little. `cut_points` cuts the text
where the concatenated ids of the parts equal those of the whole; `prompt_cache` holds their ids.

`PromptLimit` rejects prompts that are far too long before all of them is tokenized. Tokenizing 20
million characters takes seconds and gigabytes, in vain if the model can read only a
hundredth of them. So the beginning of a long text is tokenized first, then four times as much.
Cutting a text changes its tokens only near the cut, so a beginning with more than twice the tokens
that the model can read is proof.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence

import msgspec
from tokenizers import Encoding, Tokenizer

from ..base.errors import RequestError, show
from ..base.limits import CHARACTERS_PER_TOKEN, MAX_PROMPT_CHARACTERS
from .cut_points import CutPoints, NoCutsError, find_cut_points
from .prompt_cache import PromptCache, TokenIds

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
