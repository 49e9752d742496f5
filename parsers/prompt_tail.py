"""What of a prompt belongs to the answer already."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# How many tokens of the prompt's end are read for what they say of the answer.
MAX_TAIL = 64


def answer_start(prompt_token_ids: Sequence[int], ends_turn: Callable[[int], bool]) -> list[int]:
    """Return the end of the prompt behind the last token that ends an earlier turn, or a role's header.

    What earlier turns have left in the prompt says nothing of this one.
    """
    end = start = len(prompt_token_ids)
    while start > max(0, end - MAX_TAIL) and not ends_turn(prompt_token_ids[start - 1]):
        start -= 1
    return list(prompt_token_ids[start:])
