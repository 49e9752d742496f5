"""The end of the prompt, where the chat template may have begun the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# How many tokens at the end of the prompt are read for what they say about the answer.
MAX_TAIL = 64


def answer_start(prompt_token_ids: Sequence[int], ends_turn: Callable[[int], bool]) -> list[int]:
    """Return the tokens at the end of the prompt that belong to the answer, at most `MAX_TAIL`.

    They come after the last token that ends an earlier turn or a role's header (`ends_turn`): what
    earlier turns left in the prompt says nothing about this one.
    """
    end = start = len(prompt_token_ids)
    while start > max(0, end - MAX_TAIL) and not ends_turn(prompt_token_ids[start - 1]):
        start -= 1
    return list(prompt_token_ids[start:])
