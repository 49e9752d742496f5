"""Removes JSON objects that an answer has already given."""

from __future__ import annotations

import json
from collections.abc import Iterator

from typing_extensions import override

from .base import Plugin
from .json_stop import JsonScanner

# An object is separate or directly in an array; one inside another object is part of that.
PLACES = ("{", "[{")
SEPARATORS = ", \t\r\n"


class NoDuplicates(Plugin):
    """Removes an object that equals an earlier one, with the separator before it.

    Objects are in succession or in an array. The order of keys does not matter.
    """

    name = "no_duplicates"

    @override
    def clean(self, text: str) -> str:
        seen: set[str] = set()
        kept, end = [], 0
        for start, stop in find_objects(text):
            value = normalize(text[start:stop])
            if value is None:
                continue
            if value in seen:
                kept.append(text[end:start].rstrip(SEPARATORS))
                end = stop
            seen.add(value)
        return "".join((*kept, text[end:]))


def find_objects(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each complete object."""
    scanner = JsonScanner()
    start: int | None = None
    for position, char in enumerate(text):
        before = scanner.outermost
        scanner.feed(char)
        after = scanner.outermost
        if after in PLACES and before == after[:-1]:
            start = position
        elif start is not None and before in PLACES and after == before[:-1]:
            yield start, position + 1
            start = None
        elif not after:
            start = None


def normalize(text: str) -> str | None:
    """Return an object with sorted keys; None if it is not JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return None
