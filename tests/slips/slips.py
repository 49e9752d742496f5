"""Two good calls in a format's own syntax, and the same with delimiters left out or doubled.

The values are words and numbers without punctuation, so every mark and tag belongs to the syntax.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.parsers.families.family import Family, Invocation

DECLARED: dict[str, dict[str, str]] = {
    "search": {"query": "string", "limit": "integer"},
    "book": {"city": "string", "days": "integer", "express": "boolean"},
    "remove": {"path": "string"},
}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": type_} for key, type_ in properties.items()},
                "required": list(properties),
            },
        },
    }
    for name, properties in DECLARED.items()
]
PAIRS: tuple[tuple[Invocation, Invocation], ...] = (
    (("remove", {"path": "alpha"}), ("search", {"query": "beta gamma", "limit": 5})),
    (
        ("search", {"query": "delta", "limit": 17}),
        ("book", {"city": "Oslo", "days": 23, "express": True}),
    ),
    (("book", {"city": "Rome", "days": 4, "express": False}), ("remove", {"path": "epsilon"})),
)
CHANGES = ("leave out", "double", "swap")


@dataclass(frozen=True)
class Slip:
    """An output of two calls with slips.

    changes: what was done, and to which delimiter.
    """

    family: str
    calls: tuple[Invocation, ...]
    changes: tuple[tuple[str, str], ...]
    output: str


def slips(family: Family) -> Iterator[Slip]:
    """Yield each output with one slip."""
    for calls in PAIRS:
        pieces = split(family, write(family, calls))
        for position, change in itertools.product(delimiters(pieces), CHANGES):
            changed = apply(pieces, position, change)
            if changed != pieces:
                yield Slip(
                    family.name, calls, ((change, pieces[position]),), "".join(changed)
                )  # fmt: skip


def double_slips(family: Family, number: int, seed: int = 0) -> Iterator[Slip]:
    """Yield `number` outputs with two slips each, drawn at random."""
    drawn = random.Random(f"{family.name} {seed}")
    for _ in range(number):
        calls = drawn.choice(PAIRS)
        pieces = split(family, write(family, calls))
        changes = []
        for _ in range(2):
            position, change = drawn.choice(delimiters(pieces)), drawn.choice(CHANGES)
            changes.append((change, pieces[position]))
            pieces = apply(pieces, position, change)
        yield Slip(family.name, calls, tuple(changes), "".join(pieces))


def write(family: Family, calls: Sequence[Invocation]) -> str:
    """Return how the family writes `calls`."""
    assert family.write is not None
    return family.write("", calls)


def split(family: Family, output: str) -> list[str]:
    """Return the output's markers, tags, punctuation marks, and the text between these."""
    markers = sorted({*family.markers, *family.special}, key=len, reverse=True)
    tag = r"</?[\w:.|-]+>"
    delimiter = "|".join([*map(re.escape, markers), tag, r"[^\w\s]"])
    return [piece for piece in re.split(f"({delimiter})", output) if piece]


def delimiters(pieces: Sequence[str]) -> list[int]:
    """Return the positions of the pieces that are delimiters."""
    return [at for at, piece in enumerate(pieces) if re.search(r"[^\w\s]", piece)]


def apply(pieces: Sequence[str], position: int, change: str) -> list[str]:
    """Return the pieces with one delimiter left out, doubled or swapped with the next one."""
    before, piece, behind = pieces[:position], pieces[position], pieces[position + 1 :]
    if change == "leave out":
        return [*before, *behind]
    if change == "double":
        return [*before, piece, piece, *behind]
    following = next((at for at in delimiters(pieces) if at > position), position)
    swapped = list(pieces)
    swapped[position], swapped[following] = swapped[following], swapped[position]
    return swapped
