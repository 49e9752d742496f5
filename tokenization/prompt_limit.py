"""Rejects prompts that are far too long for the model before tokenizing all of them.

Tokenizing 20 million characters takes seconds and gigabytes, in vain if the model can read only a
hundredth of them. So the beginning of a long text is tokenized first, then four times as much.
Cutting a text changes its tokens only near the cut, so a beginning with more than twice the tokens
that the model can read is proof.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..base.errors import RequestError, show
from ..base.limits import CHARACTERS_PER_TOKEN, MAX_PROMPT_CHARACTERS

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
