"""Finds the markers of one state in text, by one regular expression."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property


class Scanner:
    """Finds the markers of one state in text.

    texts: the markers. Their patterns are compiled when they are first needed: that takes a
        thousand times as long as a search.
    """

    def __init__(self, texts: Collection[str]) -> None:
        # The patterns branch by first character, so that `re` skips to one of these characters; a
        # pattern that begins with a group would be tried at every position.
        self._tails: dict[str, list[str]] = {}
        for text in sorted(texts, key=len, reverse=True):  # the longest first
            self._tails.setdefault(text[0], []).append(text[1:])

    def compile(self) -> None:
        """Compile both patterns."""
        _ = self.running, self.final

    @cached_property
    def running(self) -> re.Pattern[str]:
        """Pattern for text that may continue.

        One of its groups matches if the match may be the beginning of a marker at the text's end.
        """
        # Beginnings first: a marker that begins a longer one waits for the rest of that.
        return re.compile(
            "|".join(
                f"{re.escape(first)}(?:{_match_beginnings(rest)}{_match_any(rest)})"
                for first, rest in self._tails.items()
            )
        )

    @cached_property
    def final(self) -> re.Pattern[str]:
        """Pattern for the end of the output."""
        return re.compile(
            "|".join(
                f"{re.escape(first)}(?:{_match_any(rest)})" for first, rest in self._tails.items()
            )
        )


def _match_any(tails: list[str]) -> str:
    return "|".join(map(re.escape, tails))


def _match_beginnings(tails: list[str]) -> str:
    """Return a branch for each proper beginning of `tails` at the end of the text, if any."""
    beginnings = {tail[:length] for tail in tails for length in range(len(tail))}
    if not beginnings:
        return ""
    longest_first = sorted(beginnings, key=len, reverse=True)
    return rf"((?:{_match_any(longest_first)})\Z)|"
