"""Two scores by format, vLLM's and SGLang's parsers beside ours: calls with slips, and good ones.

`python -m tests.slips` prints a table of outputs with slips, and one of well-formed calls, of which
all must be right; `--json` the same as one object. `--show FORMAT` prints each output of which a
complete call was never meant, and each well-formed call that was not read as it was written.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator

from tests.conformance.peers import SYSTEMS
from tests.parsers.families.family import Family
from tests.slips.outcome import Class, classify_slip, differs_without_stream
from tests.slips.slips import Slip, double_slips, slips
from tests.slips.systems import WRITERS, find_parsers, read_or_fail
from tests.slips.wellformed import KINDS, judge, wellformed

Counts = dict[str, dict[str, Counter[str] | None]]
"""By format and system; None where a system does not read the format."""

DOUBLE_SLIPS = 40
# Well-formed calls of each kind and format.
OF_EACH_KIND = 40


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
    if parsers is None or family.write is None:
        return None
    counts: Counter[str] = Counter()
    for slip in outputs(family):
        events = read_or_fail(parsers, family, slip.output)
        counts[classify_slip(events, slip.calls, slip.output, family.write)] += 1
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


def table(counts: Counts) -> str:
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
    assert family.write is not None
    for slip in outputs(family):
        events = read_or_fail(parsers, family, slip.output)
        if classify_slip(events, slip.calls, slip.output, family.write) is wanted:
            yield f"{slip.changes}\n  {slip.output!r}\n  {events}\n"


def count_wellformed(system: str, family: Family) -> Counter[str] | None:
    """Return by kind how many well-formed calls there are, and by `RIGHT kind` how many are right.

    None if the system does not read the family.
    """
    parsers = find_parsers(system, family)
    if parsers is None or family.write is None:
        return None
    counts: Counter[str] = Counter()
    for case in wellformed(family, OF_EACH_KIND):
        events = read_or_fail(parsers, family, case.output, case.tools)
        counts[case.kind] += 1
        counts[f"{Class.RIGHT} {case.kind}"] += judge(case, events, family.write) is Class.RIGHT
    return counts


def wellformed_cell(counts: Counter[str] | None, kind: str) -> str:
    """Return the share of the calls of a kind that are right, in percent."""
    if not counts or not counts[kind]:
        return "-"
    return f"{100 * counts[f'{Class.RIGHT} {kind}'] / counts[kind]:.1f}"


def wellformed_table(counts: Counts) -> str:
    """Return the shares of well-formed calls that are right, by format and kind: all systems'."""
    whole: dict[str, Counter[str] | None] = {
        system: sum((by[system] or Counter() for by in counts.values()), Counter())
        for system in SYSTEMS
    }
    rows = [
        f"| {name} | "
        + " | ".join(
            " / ".join(wellformed_cell(by[system], kind) for system in SYSTEMS) for kind in KINDS
        )
        + " |"
        for name, by in {**counts, "all": whole}.items()
    ]
    ours = whole["ours"] or Counter()
    number = sum(ours[kind] for kind in KINDS)
    return "\n".join(
        [
            f"{number} well-formed calls, right in percent: {' / '.join(SYSTEMS)}",
            f"| format | {' | '.join(KINDS)} |",
            "|---|" + "---|" * len(KINDS),
            *rows,
        ]
    )


def show_wellformed(family: Family) -> Iterator[str]:
    """Yield each well-formed call that is not read as it was written."""
    parsers = find_parsers("ours", family)
    assert parsers is not None
    assert family.write is not None
    for case in wellformed(family, OF_EACH_KIND):
        events = read_or_fail(parsers, family, case.output, case.tools)
        if (class_ := judge(case, events, family.write)) is not Class.RIGHT:
            yield f"{class_}: {case.kind}, {case.schema}\n  {case.output!r}\n  {events}\n"


def main() -> None:
    """Print the tables, or one format's outputs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--show", metavar="FORMAT", help="print this format's outputs of a class")
    parser.add_argument("--class", dest="class_", type=Class, default=Class.WRONG)
    parser.add_argument("--ours", action="store_true", help="leave vLLM and SGLang out")
    parser.add_argument("--well-formed", action="store_true", help="leave outputs with slips out")
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    if arguments.show:
        family = next(family for family in WRITERS if family.name == arguments.show)
        if not arguments.well_formed:
            sys.stdout.writelines(show(family, arguments.class_))
        sys.stdout.writelines(show_wellformed(family))
        return

    def count_all(count_one: Callable[[str, Family], Counter[str] | None]) -> Counts:
        return {
            family.name: {
                system: count_one(system, family)
                if system == "ours" or not arguments.ours
                else None
                for system in SYSTEMS
            }
            for family in WRITERS
        }

    slipped = {} if arguments.well_formed else count_all(count)
    good = count_all(count_wellformed)
    if arguments.json:
        sys.stdout.write(json.dumps({"slips": slipped, "well-formed": good}) + "\n")
        return
    tables = ([table(slipped)] if slipped else []) + [wellformed_table(good)]
    sys.stdout.write("\n\n".join(tables) + "\n")


if __name__ == "__main__":
    main()
