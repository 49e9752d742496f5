"""Runs the soak: whole answers are the oracle, and faults go on all the time.

Exit status 1: an answer was wrong, no fault explains an error, or memory grew.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.e2e.test_regenerate_loss import RUNNING
from tests.soak.faults import Faults
from tests.soak.figures import Report, Series
from tests.soak.fleet import STEADY, Fleet
from tests.soak.load import Load
from tests.support import write
from tools.stack import ROOT, Stack, metric

SAMPLE_S = 5.0
PROGRESS_S = 60.0


async def watch(series: list[Series], report: Report, began: float, end: float) -> None:
    """Take readings until the end, and print a line now and then."""
    shown = began
    while time.monotonic() < end:
        for each in series:
            each.read(began)
        if time.monotonic() - shown >= PROGRESS_S:
            shown = time.monotonic()
            counts = ", ".join(f"{count} {key.value}" for key, count in report.results.items())
            minutes = (shown - began) / 60
            write(f"{minutes:.0f} min: {counts}; {len(report.faults)} faults")
        await asyncio.sleep(SAMPLE_S)


async def soak(fleet: Fleet, flags: argparse.Namespace) -> bool:
    """Run load and faults; print the report; return whether all held."""
    choose = random.Random(flags.seed)
    began = time.monotonic()
    end = began + 60 * flags.minutes
    faults = Faults(
        fleet.members,
        fleet.pooled,
        {STEADY: fleet.steady},
        end,
        flags.pause_s,
        choose,
    )
    report = Report(faults.done)
    load = Load(fleet.targets, flags.streams, end, report.add, choose)
    lasting = {STEADY: fleet.steady, "vLLM worker": fleet.pooled}
    series = [Series(name, process) for name, process in lasting.items()]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load.run())
        tasks.create_task(faults.run())
        tasks.create_task(watch(series, report, began, end))
    asked = ", ".join(f"{count} {kind}" for kind, count in load.asked.most_common())
    write(f"seed {flags.seed}; asked: {asked}")
    write(report.text(series))
    write(
        f"answers restored at the {STEADY}: {metric(fleet.steady.url, 'backedge_turns_total'):.0f}"
    )
    left = sum([metric(member.process.url, RUNNING) for member in fleet.slipping])
    write(f"requests left in the slipping workers' engines: {left:.0f}")
    return report.passed(series) and not left


def main() -> None:
    """Start the fleet and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--streams", type=int, default=12, help="requests at a time")
    parser.add_argument("--pause-s", type=float, default=10.0, help="between two faults")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--logs", type=Path, help="folder of the logs; default: a temporary one")
    flags = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="backedge-soak-") as folder,
        Stack(flags.logs or Path(folder), PYTHONPATH=str(ROOT)) as stack,
    ):
        held = asyncio.run(soak(Fleet(stack), flags))
    sys.exit(not held)


if __name__ == "__main__":
    main()
