"""Refuses a prompt that is far too long for the model before all of it is tokenized.

Tokenizing 20 million characters takes seconds and gigabytes, and is in vain if the model reads a
hundredth of them. So of a long text its beginning is tokenized first, then four times as much.
Cutting a text changes its tokens only near the cut; a beginning of more than twice the tokens that
the model reads leaves no doubt.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..base.errors import RequestError

# The text of a prompt, whatever the model reads.
MAX_PROMPT_CHARACTERS = 67_108_864
# A text of so many characters for each token of the model's context is tokenized at once. Prose and
# code have 3 to 5, lists of long words 8.
CHARACTERS_PER_TOKEN = 16
STEP = 4


class PromptLimit(msgspec.Struct, frozen=True):
    """The longest prompt of a model. context_length: in tokens; None if unknown."""

    context_length: int | None = None

    def check(self, text: str, count_tokens: Callable[[str], int]) -> None:
        """Raise `RequestError` for a text that cannot fit, or that no tokenizer can read.

        count_tokens: returns the number of tokens of a text.
        """
        if len(text) > MAX_PROMPT_CHARACTERS:
            raise _too_long(text, f"up to {MAX_PROMPT_CHARACTERS:,} characters")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            shown = text[error.start : error.end]
            raise RequestError("messages", shown, "text without half surrogate pairs") from None
        if self.context_length is None:
            return
        size = self.context_length * CHARACTERS_PER_TOKEN
        while size < len(text):
            if count_tokens(text[:size]) > 2 * self.context_length:
                raise _too_long(text, describe_longest(self.context_length))
            size *= STEP


def describe_longest(context_length: int) -> str:
    """Return in words how long a prompt may be. context_length: in tokens."""
    return (
        f"up to {context_length - 1} tokens, since the model's context is {context_length} tokens "
        "and one of them is for the answer"
    )


def _too_long(text: str, allowed: str) -> RequestError:
    return RequestError("messages", f"{len(text):,} characters long", allowed)
