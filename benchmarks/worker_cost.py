"""The cost of a token in post-processing, by the answer's length; throughput by workers.

    python -m benchmarks.worker_cost [--json] [--rounds 5] [--workers 1,2]

First post-processing by itself, from a token to an OpenAI delta, inline, one token at a time:
CPU microseconds per token, ours and Dynamo's Python chat processor (vLLM's OutputProcessor and
Dynamo's StreamingPostProcessor). Then, with --workers, one frontend with each of these numbers of
workers, all streams at full speed: tokens per second, and CPU microseconds per token of the
frontend and of all workers. There the workers use vLLM's own parsers, so that they are the busiest
part of the machine.

    python -m benchmarks.worker_cost --beside ../old

With --beside, post-processing of two checkouts, answer by answer in turn, each in processes of its
own: medians, and this checkout's cost divided by the other's, the median of all rounds.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from tools.stack import MODEL_NAME, Process, Stack

from . import token_cost
from .answers import KINDS, Answer, answer
from .beside import Child, Ratio, compare, ratio_table
from .command_line import build_parser
from .cpu import cpu_time
from .load import Load, run
from .postprocessors import DynamoPostprocessor, OurPostprocessor, StartAnswer
from .systems import PARSERS, Engine, backedge
from .token_cost import US_PER_S, GivenUpError, Measured, Plan, measure

OURS, DYNAMO, BESIDE = "ours", "dynamo", "beside"
LENGTHS = (1000, 4000, 16000, 64000)
# Processes of each checkout: one alone may have its objects in lucky places.
STARTS = 2
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


class WorkersRow(msgspec.Struct):
    """A number of workers with one frontend. workers_us: CPU of all together, per token."""

    workers: int
    tokens_per_s: float
    frontend_us: float
    workers_us: float


class Report(msgspec.Struct):
    """A whole run."""

    settings: dict[str, int | float | str]
    costs: list[CostRow]
    workers: list[WorkersRow]
    ratios: list[Ratio]


def cost_rows(rounds: int, limit_s: float) -> Iterator[CostRow]:
    """Measure all systems in turns, round by round."""
    systems: dict[str, StartAnswer] = {
        OURS: OurPostprocessor(),
        DYNAMO: DynamoPostprocessor(),
    }
    for kind in KINDS:
        rows = [CostRow(system, kind, {}) for system in systems]
        for length in LENGTHS:
            asked = answer(kind, length)
            samples: dict[str, list[float]] = {system: [] for system in systems}
            for row in rows * rounds:
                cost_us = measure_row(row, length, systems[row.system], asked, limit_s)
                if cost_us is not None:
                    samples[row.system].append(cost_us)
            for row in rows:
                if samples[row.system] and length not in row.by_length:
                    row.by_length[length] = statistics.median(samples[row.system])
        yield from rows


def measure_row(
    row: CostRow, length: int, start_answer: StartAnswer, asked: Answer, limit_s: float
) -> float | None:
    """Return CPU microseconds per token; None if this or a shorter answer was given up.

    Records in `row` an answer that is given up, and texts that are wrong.
    """
    if None in row.by_length.values():
        return None
    try:
        measured = measure(start_answer, asked, limit_s)
    except GivenUpError:
        row.by_length[length] = None
        return None
    row.wrong = row.wrong or measured.wrong
    return measured.us


def beside_rows(rounds: int, checkout: Path) -> tuple[list[CostRow], list[Ratio]]:
    """Measure this checkout and another one in turn, answer by answer."""
    rows = {(side, kind): CostRow(side, kind, {}) for kind in KINDS for side in (OURS, BESIDE)}
    found: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
    plans = [Plan(kind, length) for kind in KINDS for length in LENGTHS]
    with ExitStack() as stack:
        pairs = [
            {
                side: stack.enter_context(Child("-P", token_cost.__file__, checkout=of))
                for side, of in ((OURS, None), (BESIDE, checkout.resolve()))
            }
            for _ in range(STARTS)
        ]
        for number in range(rounds):
            pair = list(pairs[number % STARTS].items())
            for place, plan in enumerate(plans):
                for side, child in pair if (number // STARTS + place) % 2 else reversed(pair):
                    child.ask(plan)
                    measured = child.answer(Measured)
                    found[side, plan.kind, plan.tokens].append(measured.us)
                    rows[side, plan.kind].wrong = rows[side, plan.kind].wrong or measured.wrong
    for (side, kind, tokens), costs in found.items():
        rows[side, kind].by_length[tokens] = statistics.median(costs)
    ratios = [
        compare(
            f"{plan.kind}, {plan.tokens}",
            "us per token",
            *(found[side, plan.kind, plan.tokens] for side in (OURS, BESIDE)),
        )
        for plan in plans
    ]
    return list(rows.values()), ratios


def workers_row(count: int, rounds: int, tokens: int) -> WorkersRow:
    """Run `count` workers with one frontend and load them all."""
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder)) as stack:
        engine = Engine("replay", tokens, 0.0)
        flags = ("--vllm-processing", "--parsers", "native", *PARSERS)
        workers = [engine.start(stack, *flags) for _ in range(count)]
        frontend = backedge().start(stack)
        stack.wait_for_model(frontend)
        streams = STREAMS_PER_WORKER * count
        load = Load(
            frontend.url,
            MODEL_NAME,
            "tools",
            stream=False,
            tokens=tokens,
            streams=streams,
            requests=streams,
        )
        wait_for_all(workers, load)
        samples = []
        for _ in range(rounds):
            before = [cpu_time(process.popen.pid) for process in (frontend, *workers)]
            start = time.monotonic()
            outcome = run(load)
            elapsed_s = time.monotonic() - start
            time.sleep(SETTLE_S)
            used = [
                cpu_time(process.popen.pid).since(earlier).total_s
                for process, earlier in zip((frontend, *workers), before, strict=True)
            ]
            if outcome.problems:
                raise RuntimeError(f"the workers gave wrong answers: {outcome.problems}")
            each = US_PER_S / outcome.tokens
            samples.append((outcome.tokens / elapsed_s, used[0] * each, sum(used[1:]) * each))
        return WorkersRow(
            count, *(statistics.median(values) for values in zip(*samples, strict=True))
        )


def wait_for_all(workers: list[Process], load: Load) -> None:
    """Send load until every worker gets requests. Raises RuntimeError after `WARM_UPS` loads."""
    for _ in range(WARM_UPS):
        before = [cpu_time(worker.popen.pid) for worker in workers]
        run(load)
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


def table(report: Report) -> str:
    """Return the report as text."""
    settings = ", ".join(f"{name} {value}" for name, value in report.settings.items())
    lines = [f"CPU microseconds per token of post-processing, medians ({settings})"]
    lines.append(f"{'system':9}{'kind':11}" + "".join(f"{length:>10}" for length in LENGTHS))
    for row in report.costs:
        cells = "".join(
            f"{'-' if (cost := row.by_length.get(length)) is None else format(cost, '.2f'):>10}"
            for length in LENGTHS
        )
        lines.append(
            f"{row.system:9}{row.kind:11}{cells}" + (f"  wrong: {row.wrong}" if row.wrong else "")
        )
    if report.workers:
        lines += ["", f"{'workers':>8}{'tokens/s':>12}{'frontend us':>14}{'workers us':>13}"]
        for workers in report.workers:
            lines.append(
                f"{workers.workers:>8}{workers.tokens_per_s:>12.0f}"
                f"{workers.frontend_us:>14.2f}{workers.workers_us:>13.1f}"
            )
    return "\n".join([*lines, *(ratio_table(report.ratios) if report.ratios else ())])


def parse_counts(text: str) -> list[int]:
    """Return the numbers in a text like "1,2"."""
    return [int(part) for part in text.split(",")]


def main(command_line: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its report."""
    parser = build_parser(__doc__)
    parser.add_argument("--rounds", type=int, help="default: 5, with --beside 16")
    parser.add_argument(
        "--limit-s", type=float, default=2.0, help="CPU seconds after which an answer is given up"
    )
    parser.add_argument(
        "--workers",
        type=parse_counts,
        default=[],
        help="numbers of workers to compare, for example 1,2",
    )
    parser.add_argument(
        "--tokens", type=int, default=1500, help="approximate tokens per answer, with --workers"
    )
    parser.add_argument(
        "--beside",
        type=Path,
        help="another checkout of Backedge with its .venv, to compare two commits in one run",
    )
    arguments = parser.parse_args(command_line)
    rounds = arguments.rounds or (5 if arguments.beside is None else 16)
    ratios: list[Ratio] = []
    if arguments.beside is None:
        rows = list(cost_rows(rounds, arguments.limit_s))
    else:
        rows, ratios = beside_rows(rounds, arguments.beside)
    workers = []
    for count in arguments.workers:
        print(f"{count} workers", file=sys.stderr)
        workers.append(workers_row(count, rounds, arguments.tokens))
    settings = {"rounds": rounds, "limit_s": arguments.limit_s}
    report = Report(settings, rows, workers, ratios)
    print(msgspec.json.encode(report).decode() if arguments.json else table(report))


if __name__ == "__main__":
    main()
