"""Claims: a long prompt delays no stream, with any tokenizer back end; a turn costs what is new.

    python -m benchmarks.forward_edge [--json] [--rounds 3] [--systems "stock vLLM" ...]
        [--parts streams conversations]

First, the cost of each back end's tokenizer alone for a prompt of 200,000 tokens, in this
process. Then the delay of the deltas of 32 running streams, quiet and while such prompts
arrive at the same frontend: Backedge's frontend with each back end, and Dynamo's own
frontends. All frontends run side by side and take turns within each round. The workers
replay answers. Then conversations of 8 to 200,000 tokens, which come back with every turn:
what tokenizing the last turn costs, and how long each frontend takes to its first delta
(`benchmarks.conversations`). The workers of the streams send each token in its own chunk
(--postprocess-latency lowest), so the delay is the frontend's; the prompts have separate
workers. `benchmarks.long_prompts` says how delays are counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from tools.stack import MODEL_NAME, Process, Stack

from . import conversations
from .answers import TINY_MODEL
from .long_prompts import Outcome, Plan, long_text, run
from .percentiles import percentile
from .systems import RUST, SGLANG_EACH, SYSTEMS, VLLM, Engine, Recipe, backedge, python_path

Encode = Callable[[str], Sequence[int]]

PROMPT_MODEL = "long"
PROMPT_TOKENS = 200_000
# Besides the prompt: for the text that a chat template adds, and for the answer.
ROOM_TOKENS = 2_000
# Length of the text from which the characters per token are estimated.
SAMPLE_CHARACTERS = 20_000
TOKENIZER = ("examples.my_tokenizer", "MyTokenizer")
PYTHON_FLAGS = (
    "--tokenizer-backend",
    "python",
    "--tokenizer-module",
    TOKENIZER[0],
    "--tokenizer-class",
    TOKENIZER[1],
)
OURS = "backedge "
PARTS = ("streams", "conversations")
WARM_UP_TIMEOUT_S = 120.0
# Long prompts may add this much to the delay of a stream: too little to be seen.
ADDED_MS = 50.0
MEGA = 1e6


def _huggingface() -> Encode:
    from backedge.templates.model_files import ModelFiles

    return ModelFiles(TINY_MODEL).encode


def _vllm() -> Encode:
    from vllm.tokenizers import get_tokenizer

    encode: Encode = get_tokenizer(str(TINY_MODEL)).encode
    return encode


def _sglang() -> Encode:
    from sglang.srt.utils.hf_transformers_utils import get_tokenizer

    encode: Encode = get_tokenizer(str(TINY_MODEL)).encode
    return encode


def _python() -> Encode:
    from backedge.tokenization import load

    return load(*TOKENIZER, TINY_MODEL).encode


BACKENDS: dict[str, Callable[[], Encode]] = {
    "huggingface": _huggingface,
    "vllm": _vllm,
    "sglang": _sglang,
    "python": _python,
}


class Contender(msgspec.Struct, frozen=True):
    """A frontend that is compared. backend: the tokenizer back end of its prompts."""

    recipe: Recipe
    backend: str


CONTENDERS = {
    RUST: Contender(SYSTEMS[RUST], "huggingface"),
    VLLM: Contender(SYSTEMS[VLLM], "vllm"),
    "stock SGLang": Contender(SYSTEMS[SGLANG_EACH], "sglang"),
    **{
        OURS + name: Contender(backedge("--tokenizer-backend", name), name)
        for name in ("huggingface", "vllm", "sglang")
    },
    OURS + "python": Contender(backedge(*PYTHON_FLAGS), "python"),
}


class Throughput(msgspec.Struct):
    """A tokenizer's speed. tokens: of the prompt. mega_per_s: per second of CPU time."""

    backend: str
    tokens: int
    mega_per_s: float


class Row(msgspec.Struct):
    """The delays of a frontend's deltas in all rounds, in milliseconds.

    prompt: median time to a long prompt's first delta. own_p99: how late the load
    generator itself was.
    """

    system: str
    quiet_p50: float
    quiet_p99: float
    p50: float
    p99: float
    worst: float
    prompt: float
    own_p99: float
    deltas: int


class Claim(msgspec.Struct):
    """A claim, and whether it held in this run."""

    text: str
    held: bool


class Report(msgspec.Struct):
    """A whole run. problems: what was wrong with responses, by system."""

    settings: dict[str, float]
    throughput: list[Throughput]
    rows: list[Row]
    claims: list[Claim]
    problems: dict[str, dict[str, int]]
    turn_costs: list[conversations.TurnCost] = []
    turn_rows: list[conversations.TurnRow] = []


class Running(msgspec.Struct):
    """A running frontend. characters: of a prompt of the wanted length."""

    name: str
    url: str
    characters: int


def characters_for(encode: Encode, tokens: int) -> int:
    """Return the length of a text of about `tokens` tokens."""
    return tokens * SAMPLE_CHARACTERS // len(encode(long_text(SAMPLE_CHARACTERS)))


def measure_throughput(backend: str, encode: Encode, tokens: int, rounds: int) -> Throughput:
    """Measure one tokenizer."""
    texts = [long_text(characters_for(encode, tokens), seed) for seed in range(rounds)]
    samples, counts = [], []
    for text in texts:
        gc.collect()
        start = time.process_time()
        counts.append(len(encode(text)))
        samples.append(counts[-1] / (time.process_time() - start) / MEGA)
    return Throughput(backend, round(statistics.median(counts)), statistics.median(samples))


@contextmanager
def running(
    plan: Plan, folder: Path, names: Sequence[str], lengths: dict[str, int]
) -> Iterator[list[Running]]:
    """Run the frontends of these names and their workers.

    lengths: characters of a prompt, by back end.
    """
    with ExitStack() as stacks:
        stacks_by_worker: dict[tuple[str, ...], Stack] = {}
        systems = []
        for name in names:
            contender = CONTENDERS[name]
            worker = contender.recipe.worker
            if worker not in stacks_by_worker:
                number = str(len(stacks_by_worker))
                stacks_by_worker[worker] = stacks.enter_context(
                    Stack(folder / number, PYTHONPATH=python_path())
                )
                start_workers(stacks_by_worker[worker], worker, plan)
            print(f"starting {name}", file=sys.stderr)
            frontend = contender.recipe.start(stacks_by_worker[worker])
            warm_up(stacks_by_worker[worker], frontend, lengths[contender.backend])
            systems.append(Running(name, frontend.url, lengths[contender.backend]))
        yield systems


def start_workers(stack: Stack, worker: tuple[str, ...], plan: Plan) -> None:
    """Start one worker for the streams and one for the prompts. worker: their flags."""
    flags = (
        "--always",
        "content",
        "--postprocess-latency",
        "lowest",
        "--prompt-tokens",
        str(PROMPT_TOKENS + ROOM_TOKENS),
    )
    for name, engine in (
        (plan.stream_model, Engine("replay", plan.tokens, plan.pace)),
        (plan.prompt_model, Engine("replay", 0, 0.0)),
    ):
        engine.start(stack, *worker, *flags, "--name", name)


def warm_up(stack: Stack, frontend: Process, characters: int) -> None:
    """Wait until both models have answered, so that everything made on first use exists."""
    for name, length in ((MODEL_NAME, 1), (PROMPT_MODEL, characters)):
        stack.wait_for_model(frontend, name)
        message = {"role": "user", "content": long_text(length)}
        body = json.dumps({"model": name, "messages": [message], "max_tokens": 1}).encode()
        deadline = time.monotonic() + WARM_UP_TIMEOUT_S
        while not _answers(frontend.url, body):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{name} has not answered in {WARM_UP_TIMEOUT_S:g} s; "
                    f"{frontend.log.name} ends with:\n{frontend.tail()}"
                )
            time.sleep(1)


def _answers(url: str, body: bytes) -> bool:
    request = urllib.request.Request(  # noqa: S310 - the frontend that this process started
        url + "/v1/chat/completions", body, {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=WARM_UP_TIMEOUT_S):  # noqa: S310 - as above
            return True
    except (urllib.error.URLError, OSError):
        return False


def summarize(system: str, outcomes: Sequence[Outcome]) -> Row:
    """Return the percentiles of all rounds of one system; NaN for those without a figure."""
    quiet, busy, prompts, own = (
        sorted(delay for outcome in outcomes for delay in getattr(outcome, name)) or [float("nan")]
        for name in ("quiet", "busy", "prompts", "own")
    )
    return Row(
        system=system,
        quiet_p50=percentile(quiet, 0.5),
        quiet_p99=percentile(quiet, 0.99),
        p50=percentile(busy, 0.5),
        p99=percentile(busy, 0.99),
        worst=busy[-1],
        prompt=percentile(prompts, 0.5),
        own_p99=percentile(own, 0.99),
        deltas=len(busy),
    )


def check_claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Yield the claims about our frontends."""
    peer = next((row for row in rows if row.system == VLLM), None)
    for row in rows:
        if not row.system.startswith(OURS):
            continue
        added = row.p99 - row.quiet_p99
        yield Claim(
            f"{row.system}: prompts add at most {ADDED_MS:g} ms to p99 ({added:.1f} ms)",
            added <= ADDED_MS,
        )
        if peer is not None:
            text = f"{row.system}: p99 below that of {VLLM} ({row.p99:.1f} and {peer.p99:.1f} ms)"
            yield Claim(text, row.p99 < peer.p99)


def check_turn_costs(costs: Sequence[conversations.TurnCost]) -> Iterator[Claim]:
    """Yield the claims about the tokenization of long conversations."""
    for cost in costs:
        if cost.tokens >= conversations.LARGE_TOKENS:
            part = cost.part / cost.whole
            yield Claim(
                f"{cost.backend}: the last turn of {cost.tokens} tokens costs at most "
                f"{conversations.LARGEST_PART:.0%} of its whole prompt ({part:.1%})",
                part <= conversations.LARGEST_PART,
            )


def measure(arguments: argparse.Namespace) -> Report:
    """Run everything."""
    backends = dict.fromkeys(CONTENDERS[name].backend for name in arguments.systems)
    encoders = {backend: BACKENDS[backend]() for backend in backends}
    tokenizers = [
        measure_throughput(name, encode, PROMPT_TOKENS, arguments.rounds)
        for name, encode in encoders.items()
    ]
    lengths = {
        backend: characters_for(encode, PROMPT_TOKENS) for backend, encode in encoders.items()
    }
    settings = {
        name: getattr(arguments, name)
        for name in ("rounds", "streams", "pace", "prompts", "every_s", "turns")
    }
    plan = Plan(
        stream_model=MODEL_NAME,
        prompt_model=PROMPT_MODEL,
        **{
            name: getattr(arguments, name)
            for name in ("streams", "pace", "quiet_s", "prompts", "every_s")
        },
    )
    report = Report(settings, tokenizers, [], [], {})
    with (
        tempfile.TemporaryDirectory() as folder,
        running(plan, Path(folder), arguments.systems, lengths) as systems,
    ):
        if "streams" in arguments.parts:
            measure_streams(report, plan, systems, arguments.rounds)
        if "conversations" in arguments.parts:
            measure_conversations(report, systems, arguments)
    report.claims = [*check_claims(report.rows), *check_turn_costs(report.turn_costs)]
    return report


def measure_streams(report: Report, plan: Plan, systems: Sequence[Running], rounds: int) -> None:
    """Measure the delays of running streams, system by system in each round."""
    outcomes: dict[str, list[Outcome]] = {system.name: [] for system in systems}
    for number, system in take_turns(systems, rounds):
        print(f"round {number + 1} of {rounds}: {system.name}", file=sys.stderr)
        seed = number * plan.prompts
        sent = msgspec.structs.replace(
            plan, url=system.url, characters=system.characters, seed=seed
        )
        outcomes[system.name].append(run(sent))
    report.rows = [summarize(name, found) for name, found in outcomes.items()]
    report.problems = sum_problems(outcomes)


def measure_conversations(
    report: Report, systems: Sequence[Running], arguments: argparse.Namespace
) -> None:
    """Measure turns of growing conversations: the tokenizers alone, and each system."""
    per_token = SAMPLE_CHARACTERS / len(_huggingface()(long_text(SAMPLE_CHARACTERS)))
    report.turn_costs = [
        conversations.measure_tokenization(
            name, int(tokens * per_token), arguments.turns, arguments.rounds
        )
        for name in conversations.ENCODERS
        for tokens in arguments.sizes
    ]
    outcomes: dict[tuple[str, int], list[conversations.Outcome]] = {}
    for number, system in take_turns(systems, arguments.rounds):
        for tokens in arguments.sizes:
            print(f"round {number + 1}: {system.name}, {tokens} tokens", file=sys.stderr)
            length = tokens * system.characters // PROMPT_TOKENS  # of its own tokenizer's
            plan = conversations.Plan(system.url, PROMPT_MODEL, length, arguments.turns, number)
            outcomes.setdefault((system.name, tokens), []).append(conversations.run(plan))
    report.turn_rows = [
        conversations.summarize(name, tokens, found) for (name, tokens), found in outcomes.items()
    ]


def take_turns(systems: Sequence[Running], rounds: int) -> Iterator[tuple[int, Running]]:
    """Yield each system once in each round, another one first each time."""
    for number in range(rounds):
        first = number % len(systems)
        for system in (*systems[first:], *systems[:first]):
            yield number, system


def sum_problems(outcomes: dict[str, list[Outcome]]) -> dict[str, dict[str, int]]:
    """Return the problems of all rounds, by system."""
    problems: dict[str, dict[str, int]] = {}
    for name, found in outcomes.items():
        for problem, count in (item for outcome in found for item in outcome.problems.items()):
            of_system = problems.setdefault(name, {})
            of_system[problem] = of_system.get(problem, 0) + count
    return problems


def table(report: Report) -> str:
    """Return the report as text."""
    settings = ", ".join(f"{name} {value:g}" for name, value in report.settings.items())
    turns = int(report.settings.get("turns", conversations.TURNS))
    lines = [f"{'tokenizer':16}{'tokens':>10}{'millions/s':>12}"]
    lines += [
        f"{row.backend:16}{row.tokens:>10}{row.mega_per_s:>12.2f}" for row in report.throughput
    ]
    if report.rows:
        lines += _delays(report, settings)
    for system, problems in report.problems.items():
        lines += [f"problem: {system}: {count} x {problem}" for problem, count in problems.items()]
    if report.turn_costs:
        lines += ["", *conversations.table(report.turn_costs, report.turn_rows, turns), ""]
    lines += [
        f"claim: {claim.text}: {'held' if claim.held else 'NOT held'}" for claim in report.claims
    ]
    return "\n".join(lines)


def _delays(report: Report, settings: str) -> list[str]:
    """Return the table of the streams' delays."""
    lines = [
        "",
        f"Delay of a delta, ms, quiet and while prompts of {PROMPT_TOKENS} tokens arrive",
        f"({settings})",
    ]
    names = ("quiet p50", "quiet p99", "p50", "p99", "worst", "prompt", "own p99")
    lines.append(f"{'system':24}" + "".join(f"{name:>11}" for name in names) + f"{'deltas':>9}")
    for row in report.rows:
        figures = (
            row.quiet_p50,
            row.quiet_p99,
            row.p50,
            row.p99,
            row.worst,
            row.prompt,
            row.own_p99,
        )
        lines.append(
            f"{row.system:24}"
            + "".join(f"{figure:>11.1f}" for figure in figures)
            + f"{row.deltas:>9}"
        )
    return lines


def main(command_line: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its report."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of the table"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--streams", type=int, default=32, help="running streams")
    parser.add_argument("--pace", type=float, default=30.0, help="tokens per second of a stream")
    parser.add_argument(
        "--quiet-s", type=float, default=5.0, help="seconds before the first prompt"
    )
    parser.add_argument("--prompts", type=int, default=6, help="prompts per round")
    parser.add_argument(
        "--every-s", type=float, default=1.5, help="seconds from one prompt to the next"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--turns", type=int, default=conversations.TURNS)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=conversations.SIZES, help="tokens at the last turn"
    )
    arguments = parser.parse_args(command_line)
    report = measure(arguments)
    print(msgspec.json.encode(report).decode() if arguments.json else table(report))


if __name__ == "__main__":
    main()
