"""`backedge top`: what workers and frontends do now, from their /metrics."""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import click

from ..base.errors import SetupError, shorten
from ..base.limits import ANSWER_TIMEOUT_S
from ..base.terminal import format_table, print_text
from .doctor.discovery import fetch_good
from .http_answer import waiting_at_most

HEAD = ("process", "streams", "tokens/s", "delay ms", "us per token", "calls", "pool")
RIGHT = (1, 2, 3)
MAX_SHOWN = 60
# The first is a worker's name, the second a frontend's.
STREAMS = ("backedge_requests_in_flight", "dynamo_frontend_inflight_requests")
TOKENS = ("backedge_engine_tokens_total", "dynamo_frontend_output_tokens_total")
# A line of Prometheus's text, and the labels that are told apart.
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
LABEL = re.compile(r'\b(?:stage|outcome|state)="([^"]*)"')
WAIT = "backedge_chunk_wait_seconds"
STAGE = "backedge_stage"
CALLS, POOL = "backedge_tool_calls_total", "backedge_pool_processes"
UNKNOWN = "-"
MS_PER_S, US_PER_S = 1e3, 1e6


class Reading(NamedTuple):
    """The samples of a process, added up by name, and by name and each label's value.

    at_s: of this machine's clock.
    """

    at_s: float
    totals: Mapping[str, float]
    parts: Mapping[tuple[str, str], float]

    def by_label(self, name: str) -> Iterator[tuple[str, float]]:
        """Yield the values of a metric that are not 0, by a label's value."""
        return ((label, value) for (of, label), value in self.parts.items() if of == name and value)


def read(url: str) -> Reading:
    """Return what a process counts. Raises `SetupError`."""
    text = fetch_good(f"{url.rstrip('/')}/metrics").decode(errors="replace")
    totals: defaultdict[str, float] = defaultdict(float)
    parts: defaultdict[tuple[str, str], float] = defaultdict(float)
    try:
        for name, labels, value in SAMPLE.findall(text):
            totals[name] += float(value)
            for label in LABEL.findall(labels):
                parts[name, label] += float(value)
    except ValueError as error:
        raise SetupError(f"{url}/metrics cannot be read: {shorten(str(error))}") from error
    if not totals:
        raise SetupError(f"{url}/metrics has no metrics.")
    return Reading(time.monotonic(), totals, parts)


def describe(url: str, before: Reading, now: Reading) -> tuple[str, ...]:
    """Return a process's row: rates since `before`, all else as it is."""
    rose = {name: value - before.totals.get(name, 0) for name, value in now.totals.items()}
    streams = next((f"{now.totals[name]:.0f}" for name in STREAMS if name in now.totals), UNKNOWN)
    tokens = next((rose[name] for name in TOKENS if name in now.totals), 0)
    waits = rose.get(f"{WAIT}_count", 0)
    return (
        url.partition("://")[2],
        streams,
        f"{tokens / max(now.at_s - before.at_s, 1e-9):.0f}",
        f"{rose[f'{WAIT}_sum'] / waits * MS_PER_S:.0f}" if waits > 0 else UNKNOWN,
        " ".join(describe_stages(before, now)) or UNKNOWN,
        ", ".join(f"{value:.0f} {label}" for label, value in now.by_label(CALLS)) or UNKNOWN,
        ", ".join(f"{value:.0f} {label}" for label, value in now.by_label(POOL)) or UNKNOWN,
    )


def describe_stages(before: Reading, now: Reading) -> Iterator[str]:
    """Yield the cost of each stage since `before`, in microseconds per token."""
    for stage, tokens in now.by_label(f"{STAGE}_tokens_total"):
        passed = tokens - before.parts.get((f"{STAGE}_tokens_total", stage), 0)
        name = f"{STAGE}_seconds_total", stage
        if passed > 0:
            cost = (now.parts.get(name, 0) - before.parts.get(name, 0)) / passed
            yield f"{stage} {cost * US_PER_S:.1f}"


def read_all(urls: tuple[str, ...]) -> dict[str, Reading | SetupError]:
    """Read all processes; all answers together may take `ANSWER_TIMEOUT_S`."""
    found: dict[str, Reading | SetupError] = {}
    with waiting_at_most(ANSWER_TIMEOUT_S):
        for url in urls:
            try:
                found[url] = read(url)
            except SetupError as error:
                found[url] = error
    return found


@click.command("top")
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option("--every", type=click.FloatRange(0.1), default=2.0, help="Seconds; default: 2.")
@click.option("--times", type=click.IntRange(1), help="Stop after so many tables.")
def command(*, urls: tuple[str, ...], every: float, times: int | None) -> None:
    """Watch workers and frontends.

    Each URL is a worker's system port or a frontend's port, whose /metrics are read.
    """
    before = read_all(urls)
    for _ in itertools.count() if times is None else range(times):
        time.sleep(every)
        now = read_all(urls)
        rows = []
        for url in urls:
            old, new = before[url], now[url]
            if isinstance(old, Reading) and isinstance(new, Reading):
                rows.append(describe(url, old, new))
            else:
                said = str(new) if isinstance(new, SetupError) else "was just reached"
                rows.append((said[:MAX_SHOWN], *[UNKNOWN] * (len(HEAD) - 1)))
        if sys.stdout.isatty():
            click.clear()
        print_text(*format_table([HEAD, *rows], right=RIGHT))
        before = now
