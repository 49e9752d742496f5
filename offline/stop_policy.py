"""Determines what ends an answer: one rule for all back ends.

A back end may stop early if it can, but only `Completion` decides where an answer ends. Tokens are
checked in order: the first one that is an end-of-sequence token or a stop token, or whose text
completes a stop string, ends the answer; otherwise the limit of tokens does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..parsers.linear_parsers import Vocabulary


@dataclass(frozen=True)
class StopPolicy:
    """The conditions that end one answer.

    strings: searched in the clean text, without duplicates.
    tokens: those that end the answer, with the stop_reason of each: None for the model's own
        end-of-sequence tokens.
    include: whether the text includes the string or token that ended it.
    max_new_tokens: None for no limit.
    """

    strings: Sequence[str] = ()
    tokens: Mapping[int, str | int | None] = field(default_factory=dict)
    include: bool = False
    max_new_tokens: int | None = None

    def find_end(self, token_ids: Sequence[int], taken: int) -> tuple[int, str | None]:
        """Return how many of `token_ids` belong to the answer, and the finish_reason there.

        taken: number of the answer's tokens before these. The reason is None if it continues.
        """
        limit = len(token_ids) + taken + 1 if self.max_new_tokens is None else self.max_new_tokens
        for count, token_id in enumerate(token_ids[: limit - taken], 1):
            if token_id in self.tokens:
                return count, "stop"
            if taken + count == limit:
                return count, "length"
        return len(token_ids), None


def normalize_stops(
    stops: Sequence[str],
    stop_token_ids: Sequence[int],
    vocabulary: Vocabulary,
    eos_token_ids: Sequence[int],
    *,
    hides_special: bool,
) -> tuple[list[str], dict[int, str | int | None]]:
    """Return the strings to search, and the tokens that end an answer with their reasons.

    hides_special: the searched text lacks special tokens, so a stop string that is one of them
        becomes a stop token. Otherwise a parser sees them, and the search finds them.
    """
    tokens: dict[int, str | int | None] = dict.fromkeys(eos_token_ids)
    tokens |= {token_id: token_id for token_id in stop_token_ids if token_id not in tokens}
    strings = []
    for stop in dict.fromkeys(stops):
        token_id = vocabulary.ids.get(stop)
        if hides_special and token_id is not None and token_id in vocabulary.special:
            tokens[token_id] = stop
        else:
            strings.append(stop)
    return strings, tokens
