"""The cost of a token in post-processing, by the answer's length; throughput by workers.

    python -m benchmarks.worker_cost [--json] [--rounds 5] [--workers 1,2]

First post-processing by itself, from a token to an OpenAI delta, inline, one token at a time:
CPU microseconds per token, ours and Dynamo's Python chat processor (vLLM's OutputProcessor and
Dynamo's StreamingPostProcessor). Then, with --workers, one frontend with each of these numbers of
workers, all streams at full speed: tokens per second, and CPU microseconds per token of the
frontend and of all workers. There the workers use vLLM's own parsers, so that they are the busiest
part of the machine.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tools.stack import MODEL_NAME, Process, Stack

from .answers import KINDS, Answer, Texts, answer
from .cpu import cpu_time
from .load import Client, Load
from .postprocessors import DynamoPostprocessor, OurPostprocessor, StartAnswer
from .report import build_parser, find_medians, show
from .systems import PARSERS, Engine, backedge

OURS, DYNAMO = "ours", "dynamo"
LENGTHS = (1000, 4000, 16000, 64000)
US_PER_S = 1e6
# Tokens between two checks of the time limit.
STRIDE = 500
STREAMS_PER_WORKER = 8
SETTLE_S = 0.5
WARM_UPS = 20
BUSY_S = 0.05


class CostRow(msgspec.Struct):
    """Microseconds per token of one system, by the answer's length; None if it was given up.

    wrong: the kinds of text that came out wrong.
    """

    system: str
    kind: str
    by_length: dict[int, float | None]
    wrong: str = ""


class Sample(msgspec.Struct):
    """One round of a number of workers. workers_us: CPU of all together, per token."""

    tokens_per_s: float
    frontend_us: float
    workers_us: float


class WorkersRow(msgspec.Struct):
    """A number of workers with one frontend: the medians of all rounds."""

    workers: int
    median: Sample


def measure(start_answer: StartAnswer, asked: Answer, limit_s: float) -> tuple[float, str] | None:
    """Post-process an answer: CPU microseconds per token, and the texts that came out wrong.

    None if it took longer than `limit_s` of CPU time.
    """
    stream = start_answer(asked)
    gc.collect()
    gc.freeze()  # no system pays for collecting the objects of another
    *body, last = asked.token_ids
    start = time.process_time()
    for begin in range(0, len(body), STRIDE):
        for token_id in body[begin : begin + STRIDE]:
            stream.feed(token_id, last=False)
        if time.process_time() - start > limit_s:
            return None
    stream.feed(last, last=True)
    us = (time.process_time() - start) * US_PER_S / len(asked.token_ids)
    return us, differences(stream.texts(), asked.texts)


def differences(given: Texts, wanted: Texts) -> str:
    """Return the names of the texts that differ in more than the white space around them."""
    names = [
        name
        for name in Texts.__struct_fields__
        if getattr(given, name).strip() != getattr(wanted, name).strip()
    ]
    return ", ".join(names)


def cost_rows(rounds: int, limit_s: float) -> Iterator[CostRow]:
    """Measure all systems in turns, round by round."""
    systems: dict[str, StartAnswer] = {OURS: OurPostprocessor(), DYNAMO: DynamoPostprocessor()}
    for kind in KINDS:
        rows = [CostRow(system, kind, {}) for system in systems]
        for length in LENGTHS:
            asked = answer(kind, length)
            samples: dict[str, list[float]] = {system: [] for system in systems}
            for row in rows * rounds:
                if None in row.by_length.values():
                    row.by_length[length] = None  # this or a shorter answer was given up
                elif measured := measure(systems[row.system], asked, limit_s):
                    samples[row.system].append(measured[0])
                    row.wrong = row.wrong or measured[1]
                else:
                    row.by_length[length] = None
            for row in rows:
                if length not in row.by_length:
                    row.by_length[length] = statistics.median(samples[row.system])
        yield from rows


def workers_row(count: int, rounds: int, tokens: int) -> WorkersRow:
    """Run `count` workers with one frontend and load them all."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Path(folder)) as stack,
        Client() as client,
    ):
        engine = Engine("replay", tokens, 0.0)
        flags = ("--vllm-processing", "--parsers", "native", *PARSERS)
        workers = [engine.start(stack, *flags) for _ in range(count)]
        frontend = backedge().start(stack)
        stack.wait_for_model(frontend)
        streams = STREAMS_PER_WORKER * count
        load = Load(frontend.url, MODEL_NAME, "tools", False, tokens, streams, streams)
        wait_for_all(workers, load, client)
        samples = [run_round([frontend, *workers], load, client) for _ in range(rounds)]
        return WorkersRow(count, find_medians(samples))


def run_round(processes: Sequence[Process], load: Load, client: Client) -> Sample:
    """Load all workers once. processes: the frontend first. Raises RuntimeError if one is wrong."""
    before = [cpu_time(process.popen.pid) for process in processes]
    start = time.monotonic()
    outcome = client.run(load)
    elapsed_s = time.monotonic() - start
    time.sleep(SETTLE_S)
    frontend_s, *workers_s = (
        cpu_time(process.popen.pid).since(earlier).total_s
        for process, earlier in zip(processes, before, strict=True)
    )
    if outcome.problems:
        raise RuntimeError(f"the workers gave wrong answers: {outcome.problems}")
    each = US_PER_S / outcome.tokens
    return Sample(outcome.tokens / elapsed_s, frontend_s * each, sum(workers_s) * each)


def wait_for_all(workers: list[Process], load: Load, client: Client) -> None:
    """Send load until every worker gets requests. Raises RuntimeError after `WARM_UPS` loads."""
    for _ in range(WARM_UPS):
        before = [cpu_time(worker.popen.pid) for worker in workers]
        client.run(load)
        used = [
            cpu_time(worker.popen.pid).since(then)
            for worker, then in zip(workers, before, strict=True)
        ]
        if all(time.total_s > BUSY_S for time in used):
            return
    raise RuntimeError(
        f"some of the {len(workers)} workers got no request in {WARM_UPS} loads: "
        "the frontend's router has not found them"
    )


def parse_counts(text: str) -> list[int]:
    """Return the numbers in a text like "1,2"."""
    return [int(part) for part in text.split(",")]


def main(command_line: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its report."""
    parser = build_parser(__doc__, 5)
    parser.add_argument(
        "--limit-s", type=float, default=2.0, help="CPU seconds after which an answer is given up"
    )
    parser.add_argument("--workers", type=parse_counts, default=[], help="for example 1,2")
    parser.add_argument("--tokens", type=int, default=1500, help="of an answer, with --workers")
    arguments = parser.parse_args(command_line)
    tables: dict[str, Sequence[msgspec.Struct]] = {
        "us per token of post-processing": list(cost_rows(arguments.rounds, arguments.limit_s))
    }
    workers = []
    for count in arguments.workers:
        print(f"{count} workers", file=sys.stderr)
        workers.append(workers_row(count, arguments.rounds, arguments.tokens))
    show({**tables, "by number of workers": workers}, as_json=arguments.json)


if __name__ == "__main__":
    main()
