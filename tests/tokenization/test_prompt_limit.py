"""Which texts are refused before they are tokenized as a whole, and what that costs."""

from __future__ import annotations

import pytest
from backedge.base.errors import RequestError
from backedge.base.limits import CHARACTERS_PER_TOKEN, MAX_PROMPT_CHARACTERS
from backedge.tokenization.prompt_cache import PromptLimit
from hypothesis import given
from hypothesis import strategies as st

from tests.support import encode

CONTEXT = 100


def check(text: str, context_length: int | None = CONTEXT) -> int:
    """Return how many characters are tokenized to find out."""
    read = 0

    def count(part: str) -> int:
        nonlocal read
        read += len(part)
        return len(encode(part))

    PromptLimit(context_length).check(text, count)
    return read


@pytest.mark.parametrize("text", ["word " * 100_000, "世" * 100_000, "x, y; " * 100_000])
def test_of_a_text_that_is_far_too_long_the_beginning_is_tokenized(text: str) -> None:
    read = 0

    def count(part: str) -> int:
        nonlocal read
        read += len(part)
        return len(encode(part))

    with pytest.raises(RequestError, match="at most 99 tokens") as refused:
        PromptLimit(CONTEXT).check(text, count)
    assert refused.value.field == "messages"
    assert read <= CONTEXT * CHARACTERS_PER_TOKEN


def test_a_text_that_may_fit_is_not_looked_at() -> None:
    assert check("word " * (CONTEXT * CHARACTERS_PER_TOKEN // 5)) == 0
    assert check("word " * 100_000, None) == 0


def test_a_text_of_long_tokens_passes() -> None:
    longest = CONTEXT * CHARACTERS_PER_TOKEN * 10
    counts: list[int] = []

    def count(part: str) -> int:
        counts.append(len(part))
        return len(part) // 1000

    PromptLimit(CONTEXT).check("x" * longest, count)
    assert counts == [1600, 6400]


@given(st.text(min_size=1, max_size=300), st.integers(1, 40))
def test_a_text_that_fits_is_never_refused(text: str, times: int) -> None:
    """Also where the text is cut in the middle of a word."""
    whole = text * times
    check(whole, len(encode(whole)) + 1)


def test_there_is_a_limit_without_a_known_context() -> None:
    with pytest.raises(RequestError, match="at most 67,108,864"):
        PromptLimit().check("x" * (MAX_PROMPT_CHARACTERS + 1), len)
