"""The flags that all benchmarks have, the medians of rounds, and how a report is printed."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
from backedge.base import terminal

Sample = TypeVar("Sample", bound=msgspec.Struct)
Item = TypeVar("Item")
# From here on a figure has no decimals.
NO_DECIMALS = 100


def build_parser(doc: str | None, rounds: int | None = None) -> argparse.ArgumentParser:
    """Return a benchmark's parser. doc: of its module. rounds: the default; None for no flag."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    return parser


def rotate(items: Sequence[Item], number: int) -> Iterator[Item]:
    """Yield the items of a round; each goes first in turn."""
    first = number % len(items)
    yield from items[first:]
    yield from items[:first]


def find_medians(samples: Sequence[Sample]) -> Sample:
    """Return the medians of the rounds' samples, field by field."""
    rounds = zip(*map(msgspec.structs.astuple, samples), strict=True)
    return type(samples[0])(*map(statistics.median, rounds))


def compare_rounds(ours: Sequence[float], others: Sequence[float]) -> float:
    """Return the median of the ratios of figures of the same rounds."""
    return statistics.median(one / other for one, other in zip(ours, others, strict=True))


def show(tables: Mapping[str, Sequence[msgspec.Struct]], *, as_json: bool) -> None:
    """Print rows by the title of their table: as text, or as one JSON object."""
    if as_json:
        print(msgspec.json.encode(tables).decode())
    else:
        print("\n\n".join(format_table(title, rows) for title, rows in tables.items()))


def format_table(title: str, rows: Sequence[msgspec.Struct]) -> str:
    """Return the rows as text, with a column for each field; one in a row's struct counts, too."""
    flat = [flatten(row) for row in rows]
    cells = [list(row) for row in flat[:1]] + [list(map(write_cell, row.values())) for row in flat]
    return "\n".join([title, *terminal.format_table(cells)])


def flatten(row: msgspec.Struct) -> dict[str, object]:
    """Return a row's values by field."""
    found: dict[str, object] = {}
    for name, value in msgspec.structs.asdict(row).items():
        if isinstance(value, msgspec.Struct):
            found |= flatten(value)
        elif isinstance(value, dict):
            found |= {str(key): one for key, one in value.items()}
        else:
            found[name] = value
    return found


def write_cell(value: object) -> str:
    """Return a value as text; a figure has about three digits."""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= NO_DECIMALS else f"{value:.3g}"
    if isinstance(value, bool):
        return str(value).lower()
    return "-" if value is None else str(value)
