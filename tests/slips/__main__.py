"""Counts how calls with slips are read, by format; vLLM's and SGLang's parsers beside ours.

`python -m tests.slips` prints the table, `--json` the same as one object, `--show FORMAT` each
output of which a complete call was never meant.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator

from tests.conformance.peers import SYSTEMS
from tests.parsers.families.family import Family
from tests.slips.outcome import Class, classify, differs_without_stream
from tests.slips.slips import Slip, double_slips, slips
from tests.slips.systems import WRITERS, find_parsers, read_or_fail

DOUBLE_SLIPS = 40


def outputs(family: Family) -> Iterator[Slip]:
    """Yield the family's outputs: each with one slip, some with two."""
    yield from slips(family)
    yield from double_slips(family, DOUBLE_SLIPS)


DIFFERS = "differs without a stream"


def count(system: str, family: Family) -> Counter[str] | None:
    """Return how often each class came; None if the system does not read the family.

    `DIFFERS` counts our answers that a client without a stream gets otherwise.
    """
    parsers = find_parsers(system, family)
    if parsers is None:
        return None
    counts: Counter[str] = Counter()
    for slip in outputs(family):
        events = read_or_fail(parsers, family, slip)
        counts[classify(events, slip.calls)] += 1
        counts[DIFFERS] += system == "ours" and differs_without_stream(events)
    return counts


def total(counts: Counter[str]) -> int:
    """Return the number of outputs."""
    return sum(counts[class_] for class_ in Class)


def cell(counts: Counter[str] | None) -> str:
    """Return the shares of each class in percent."""
    if not counts:
        return "-"
    return " / ".join(f"{100 * counts[class_] / total(counts):.1f}" for class_ in Class)


def table(counts: dict[str, dict[str, Counter[str] | None]]) -> str:
    """Return the counts by format, and of all formats that a system reads."""
    rows = [
        f"| {name} | {total(by['ours']) if by['ours'] else 0} | "
        + " | ".join(cell(by[system]) for system in SYSTEMS)
        + " |"
        for name, by in counts.items()
    ]
    whole = {
        system: sum((by[system] or Counter() for by in counts.values()), Counter())
        for system in SYSTEMS
    }
    rows.append(
        f"| all | {total(whole['ours'])} | "
        + " | ".join(cell(whole[system]) for system in SYSTEMS)
        + " |"
    )
    heads = " | ".join(f"{system}: {' / '.join(Class)}" for system in SYSTEMS)
    return "\n".join(
        [
            f"| format | outputs | {heads} |",
            "|---|---|" + "---|" * len(SYSTEMS),
            *rows,
            f"{DIFFERS}: {whole['ours'][DIFFERS]}",
        ]
    )


def show(family: Family, wanted: Class) -> Iterator[str]:
    """Yield each output of a class, with what the client gets of it."""
    parsers = find_parsers("ours", family)
    assert parsers is not None
    for slip in outputs(family):
        events = read_or_fail(parsers, family, slip)
        if classify(events, slip.calls) is wanted:
            yield f"{slip.changes}\n  {slip.output!r}\n  {events}\n"


def main() -> None:
    """Print the table, or one format's outputs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--show", metavar="FORMAT", help="print this format's outputs of a class")
    parser.add_argument("--class", dest="class_", type=Class, default=Class.WRONG)
    parser.add_argument("--ours", action="store_true", help="leave vLLM and SGLang out")
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    if arguments.show:
        family = next(family for family in WRITERS if family.name == arguments.show)
        sys.stdout.writelines(show(family, arguments.class_))
        return
    counts = {
        family.name: {
            system: count(system, family) if system == "ours" or not arguments.ours else None
            for system in SYSTEMS
        }
        for family in WRITERS
    }
    sys.stdout.write((json.dumps(counts) if arguments.json else table(counts)) + "\n")


if __name__ == "__main__":
    main()
