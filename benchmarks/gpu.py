"""The speed and the CPU cost of a frontend and a worker on a GPU.

    python -m benchmarks.gpu [--json] [--streams 64 256] [--tokens 256] [--rounds 3]

The engine is transformers with a dense model of random weights; each of its tokens is replaced by
one of a recorded answer (see `gpu_worker`). Dynamo's frontend in Rust has a plain worker, ours one
that post-processes. Both workers share the GPU, and the systems take turns within each round, so
that a slower machine is slower for both. No round begins that would end after --minutes.
`tools/gpu_bench` brings the packages to a machine without a network.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Self

import msgspec
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from tools.gpu_check import find_gpu
from tools.stack import MODEL_NAME

from .answers import KINDS, TINY_MODEL, Answers, answer
from .cpu import CpuTime
from .load import Client, Load
from .report import build_parser, compare_rounds, find_medians, rotate, show
from .systems import BACKEDGE_HF, RUST, Engine, System, measure_idle, running

US_PER_S = 1e6
S_PER_MINUTE = 60
# The files of the example model that a model of its tokenizer needs.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)
HEAD_SIZE = 128
# Tokens of a block of the cache, and of the longest prompt.
BLOCK_SIZE = 32
PROMPT_TOKENS = 512
# The cache has this many times the blocks that the streams need.
ROOM = 1.25
IDLE_S = 2.0


class Shape(msgspec.Struct, frozen=True):
    """The size of the model; the default has 1.5 billion parameters, and Qwen's vocabulary."""

    layers: int = 28
    hidden: int = 1536
    vocabulary: int = 151936


class Case(msgspec.Struct, frozen=True):
    """One row's name. streams: at once."""

    system: str
    kind: str
    streams: int


class Sample(msgspec.Struct, frozen=True):
    """One round of one case.

    gap_p50_ms, gap_p99_ms: between two chunks of a stream; a chunk may have several tokens.
    frontend_us, worker_us: CPU microseconds per token; the worker's are also the engine's.
    chunks: per 100 tokens. gpu_percent: the part of the time in which the GPU computed.
    """

    tokens_per_s: float
    gap_p50_ms: float
    gap_p99_ms: float
    frontend_us: float
    worker_us: float
    chunks: float
    gpu_percent: float


class Row(msgspec.Struct):
    """The medians of a case's rounds. of_rust: of the ratios of tokens per second."""

    case: Case
    median: Sample
    of_rust: float


class Problem(msgspec.Struct, frozen=True):
    """A mistake in some responses of a case."""

    case: Case
    text: str


class Machine(msgspec.Struct):
    """Where the figures are from. rounds: that were run."""

    gpu: str
    torch: str
    parameters: int
    rounds: int


class GpuUse:
    """Reads the GPU's use while the context lasts."""

    percent = 0.0

    def __enter__(self) -> Self:
        query = ("--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200")
        self._reader = None
        if program := shutil.which("nvidia-smi"):
            self._reader = subprocess.Popen((program, *query), stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is None:
            return
        self._reader.terminate()
        shown, _error = self._reader.communicate()
        values = [int(line) for line in shown.split() if line.isdigit()]
        self.percent = sum(values) / max(1, len(values))


def build_model(folder: Path, shape: Shape, device: str) -> int:
    """Write a model of random weights with the example's tokenizer; return its parameters."""
    heads = max(2, shape.hidden // HEAD_SIZE)
    config = Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=6 * shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 6),
        head_dim=shape.hidden // heads,
        max_position_embeddings=1 << 15,
        tie_word_embeddings=True,
    )
    with torch.device(device):
        model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    for name in TOKENIZER_FILES:
        shutil.copy(TINY_MODEL / name, folder)
    parameters: int = sum(parameter.numel() for parameter in model.parameters())
    del model
    torch.cuda.empty_cache()  # leaves the memory to the workers; does nothing without a GPU
    return parameters


class Benchmark:
    """Runs the rounds and keeps their samples."""

    def __init__(
        self, arguments: argparse.Namespace, systems: list[System], client: Client
    ) -> None:
        self._arguments = arguments
        self._systems = systems
        self._client = client
        self._samples: defaultdict[Case, list[Sample]] = defaultdict(list)
        self._idle: dict[str, tuple[CpuTime, ...]] = {}
        self.problems: list[Problem] = []
        self.rounds = 0

    def run(self, deadline: float) -> list[Row]:
        """Warm up, run all rounds that end before the deadline, and return the medians."""
        for system in self._systems:
            for kind in self._arguments.kinds:
                self._client.warm_up(self._load(Case(system.name, kind, 1), system))
        self._idle = measure_idle(self._systems, IDLE_S)
        longest = 0.0
        while self.rounds < self._arguments.rounds:
            began = time.monotonic()
            if self.rounds and began + longest > deadline:
                break
            self._run_round()
            longest = max(longest, time.monotonic() - began)
        return self._summarize()

    def _run_round(self) -> None:
        for kind in self._arguments.kinds:
            for streams in self._arguments.streams:
                for system in rotate(self._systems, self.rounds):
                    self._measure(Case(system.name, kind, streams), system)
        self.rounds += 1

    def _load(self, case: Case, system: System) -> Load:
        return Load(
            url=system.url,
            model=MODEL_NAME,
            kind=case.kind,
            stream=True,
            tokens=self._arguments.tokens,
            streams=case.streams,
            requests=case.streams,
            max_tokens=cut_answer(case.kind, self._arguments.tokens),
        )

    def _measure(self, case: Case, system: System) -> None:
        before = system.cpu_times()
        with GpuUse() as gpu:
            outcome = self._client.run(self._load(case, system))
        times = system.used_since(before, self._idle[system.name], outcome.seconds)
        used = [each.total_s for each in times]
        self.problems += [
            Problem(case, f"{text}: {count}") for text, count in outcome.problems.items()
        ]
        tokens = max(1, outcome.tokens)
        self._samples[case].append(
            Sample(
                tokens_per_s=outcome.tokens / outcome.seconds,
                gap_p50_ms=outcome.gap_ms[0],
                gap_p99_ms=outcome.gap_ms[1],
                frontend_us=used[0] * US_PER_S / tokens,
                worker_us=sum(used[1:]) * US_PER_S / tokens,
                chunks=100 * outcome.chunks / tokens,
                gpu_percent=gpu.percent,
            )
        )

    def _summarize(self) -> list[Row]:
        rates = {
            case: [sample.tokens_per_s for sample in samples]
            for case, samples in self._samples.items()
        }
        return [
            Row(
                case,
                find_medians(samples),
                compare_rounds(rates[case], rates[msgspec.structs.replace(case, system=RUST)]),
            )
            for case, samples in self._samples.items()
        ]


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = build_parser(__doc__, 3)
    parser.add_argument("--streams", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--tokens", type=int, default=256, help="of an answer, at most or about")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["content", "tools"])
    parser.add_argument("--minutes", type=float, default=7.0, help="for the whole run")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--layers", type=int, default=Shape().layers)
    parser.add_argument("--hidden", type=int, default=Shape().hidden)
    parser.add_argument("--vocabulary", type=int, default=Shape().vocabulary)
    return parser.parse_args()


def cut_answer(kind: str, tokens: int) -> int:
    """Return the max_tokens of an answer; 0 if it is no longer than `tokens`."""
    return tokens if tokens < len(answer(kind, tokens).token_ids) else 0


def limit_batches(streams: int, tokens: int) -> tuple[str, ...]:
    """Return the worker's flags for so many answers at once. tokens: of the longest."""
    blocks = -(-(PROMPT_TOKENS + tokens) // BLOCK_SIZE)
    return (
        *("--block-size", str(BLOCK_SIZE), "--num-blocks", str(int(ROOM * streams * blocks))),
        *("--max-num-seqs", str(streams), "--max-num-batched-tokens", str(max(512, 2 * streams))),
        *("--max-model-len", str(BLOCK_SIZE * blocks)),
    )


def main() -> None:
    """Run the benchmark and print its report."""
    arguments = parse_arguments()
    deadline = time.monotonic() + arguments.minutes * S_PER_MINUTE
    shape = Shape(arguments.layers, arguments.hidden, arguments.vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        print("writing the model", file=sys.stderr)
        parameters = build_model(Path(folder), shape, arguments.device)
        served = ("--model", folder, "--served-model-name", MODEL_NAME)
        limits = limit_batches(max(arguments.streams), Answers(arguments.tokens).longest)
        flags = (*served, "--device", arguments.device, *limits)
        engine = Engine("transformers", arguments.tokens, 0.0, flags)
        with running(engine, (RUST, BACKEDGE_HF)) as systems, Client() as client:
            benchmark = Benchmark(arguments, systems, client)
            rows = benchmark.run(deadline)
    machine = Machine(find_gpu() or "none", str(torch.__version__), parameters, benchmark.rounds)
    show(
        {"machine": [machine], "medians of rounds": rows, "problems": benchmark.problems},
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
