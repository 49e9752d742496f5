"""Hostile requests against real frontends: python -m tests.hostile [--requests 1500] [--seed 1]

Every edge gets the table of bad requests, requests that are small and dear, and random ones. A
stream runs all the time beside them. Prints a row for each edge; exit status 1 if an oracle failed:

- no 5xx, and an answer within a minute, whatever a client sends
- a 400 names the field, unless Dynamo's HTTP layer or the worker gave it
- no gap in the stream longer than 250 ms, or 1.5 times the longest under as many good requests
- memory as before, give or take the caches' bounds
- places in the queue come back (there are fewer than requests), and a good request is answered
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from backedge.base.limits import BODY_MB
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.e2e.client import Client
from tests.e2e.conftest import BACKENDS, ON_PATH
from tests.e2e.test_bad_requests import DYNAMOS_OWN, read_refusal
from tests.e2e.test_replay import PARSERS
from tests.engines.frontends.bad_requests import BAD
from tests.engines.frontends.test_any_request import requests
from tests.hostile.dear import dear_requests
from tests.hostile.steady_stream import SteadyStream
from tests.support import TRANSCRIPTS, write
from tools.stack import MODEL_NAME, Process, Stack

AT_ONCE = 4
TIMEOUT_S = 60.0
MAX_GAP_S = 0.25
TOO_LARGE = 413
# The caches of schemas, templates and prompts have bounds of this size together.
MAX_GROWTH_MB = 128.0
GOOD = "plain_text"
HEAD = (
    "| edge | requests | 200 | 4xx | 5xx, hung | gap beside good ones, ms | beside hostile, ms "
    "| MB before | after | faults |\n" + "|---" * 10 + "|"
)
# The field, as a message begins with it; what the replay worker says of a prompt it does not know.
NAMES_A_FIELD = re.compile(r"`\S.*` (is|has|must|cannot|requires) ")
WORKERS_OWN = "has this prompt"


@dataclass
class Row:
    """What an edge answered.

    faults: what no oracle allows, the first few in words. dynamos: beginnings of Dynamo's refusals.
    """

    edge: str
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    dynamos: Counter[str] = field(default_factory=Counter)
    good_gap_s: float = 0.0
    gap_s: float = 0.0
    megabytes: tuple[float, float] = (0.0, 0.0)

    def read(self, body: bytes, status: int, message: str) -> None:
        """Judge an answer."""
        self.statuses[status] += 1
        own = DYNAMOS_OWN.match(message)
        # Where definitions of a forced tool are no object, Dynamo's HTTP layer says no more.
        says_no_more = message == "Invalid request" and b'"$defs": {' not in body
        if own or says_no_more:
            self.dynamos[own[0].strip() if own else message] += 1
        names_field = NAMES_A_FIELD.match(message) or own or says_no_more
        if status >= 500 or status == 0:
            self.faults.append(f"{status} {message[:200]!r} for {body[:300]!r}")
        elif status == 400 and not names_field and WORKERS_OWN not in message:
            self.faults.append(f"no field: {message[:200]!r} for {body[:300]!r}")

    def judge(self) -> None:
        """Judge what all requests together did."""
        if self.gap_s > max(MAX_GAP_S, 1.5 * self.good_gap_s):
            self.faults.append(f"a gap of {self.gap_s * 1000:.0f} ms in a stream beside them")
        if self.megabytes[1] - self.megabytes[0] > MAX_GROWTH_MB:
            self.faults.append("memory has grown from {:.0f} to {:.0f} MB".format(*self.megabytes))

    def line(self) -> str:
        """Return the row of the table."""
        refused = sum(count for status, count in self.statuses.items() if 400 <= status < 500)
        failed = sum(count for status, count in self.statuses.items() if not 0 < status < 500)
        gaps = f"{self.good_gap_s * 1000:.0f} | {self.gap_s * 1000:.0f}"
        memory = "{:.0f} | {:.0f}".format(*self.megabytes)
        total = self.statuses.total()
        answered = self.statuses[200]
        return (
            f"| {self.edge} | {total} | {answered} | {refused} | {failed} | {gaps} | {memory} "
            f"| {len(self.faults)} |"
        )


def draw_requests(count: int, number: int) -> list[dict[str, Any]]:
    """Return random requests. number: of the seed."""
    drawn: list[dict[str, Any]] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests())
    def collect(request: dict[str, Any]) -> None:
        drawn.append(request)

    collect()
    return drawn


def build_bodies(count: int, number: int) -> list[bytes]:
    """Return the bodies of all requests, shuffled."""
    choose = random.Random(number)
    fields = [
        *({"messages": TRANSCRIPTS[GOOD]["messages"], **bad.fields} for bad in BAD),
        *dear_requests(),
        *draw_requests(count, number),
    ]
    bodies = [
        json.dumps({"model": MODEL_NAME, "stream": choose.random() < 0.5, **each}).encode()
        for each in fields
    ]
    bodies += [b"[" * 1_000_000, b'{"messages": ' + b'{"content": ' * 100_000, b"\x00" * 1_000_000]
    choose.shuffle(bodies)
    return bodies


def resident_mb(process: Process) -> float:
    """Return how much memory a process holds."""
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def post(client: httpx.AsyncClient, body: bytes) -> tuple[int, str]:
    """Return status and message; status 0 if no answer came."""
    headers = {"Content-Type": "application/json"}
    is_refused = len(body) > BODY_MB << 20
    if is_refused:
        # The HTTP layer reads no more of it, and closes the connection.
        headers["Connection"] = "close"
    try:
        answer = await client.post("/v1/chat/completions", content=body, headers=headers)
    except (httpx.ReadError, httpx.WriteError) as error:
        return (TOO_LARGE if is_refused else 0), repr(error)
    except httpx.HTTPError as error:
        return 0, repr(error)
    return read_refusal(answer)


async def send(url: str, bodies: Sequence[bytes], row: Row | None) -> float:
    """Send all, a few at once; return the longest gap in a stream beside them."""
    waiting = iter(bodies)
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:

        async def work() -> None:
            for body in waiting:
                status, message = await post(client, body)
                if row is not None:
                    row.read(body, status, message)

        with SteadyStream(url) as stream:
            await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return stream.longest_gap_s


def attack(edge: str, frontend: Process, bodies: Sequence[bytes]) -> Row:
    """Send all requests to an edge."""
    row = Row(edge)
    good = {"model": MODEL_NAME, "messages": TRANSCRIPTS[GOOD]["messages"], "stream": True}
    bodies_good = [json.dumps(good).encode()] * (len(bodies) // 4)
    row.good_gap_s = asyncio.run(send(frontend.url, bodies_good, None))
    warm_up = len(bodies) // 2
    first = asyncio.run(send(frontend.url, bodies[:warm_up], row))
    before = resident_mb(frontend)
    row.gap_s = max(first, asyncio.run(send(frontend.url, bodies[warm_up:], row)))
    row.megabytes = before, resident_mb(frontend)
    row.judge()
    answer = Client(frontend.url, MODEL_NAME).ask(TRANSCRIPTS[GOOD])
    if answer.message != TRANSCRIPTS[GOOD]["expect"]:
        row.faults.append(f"the next good request: {answer.message}")
    return row


def main() -> int:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--requests", type=int, default=1500, help="random ones for each edge")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--edges", nargs="+", choices=tuple(BACKENDS), default=tuple(BACKENDS))
    flags = parser.parse_args()
    bodies = build_bodies(flags.requests, flags.seed)
    write(f"seed {flags.seed}")
    write(HEAD)
    failed = False
    dynamos = {}
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder)) as stack:
        stack.replay(*PARSERS, "--tokens-per-second", "50", "--postprocess-latency", "lowest")
        for edge in flags.edges:
            frontend = stack.frontend(*PARSERS, *BACKENDS[edge], **ON_PATH)
            stack.wait_for_model(frontend)
            row = attack(edge, frontend, bodies)
            frontend.terminate()
            frontend.reap()
            write("\n  ".join([row.line(), *row.faults[:10]]))
            failed |= bool(row.faults)
            dynamos[edge] = dict(row.dynamos)
    write(f"refusals by Dynamo's HTTP layer: {dynamos}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
