"""The systems that are compared: each is a frontend with its worker."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from tools.stack import BACKEDGE_FRONTEND, STOCK_FRONTEND, VLLM_FRONTEND, Process, Stack

from .answers import ROOT
from .cpu import CpuTime, cpu_time

RUST, VLLM, SGLANG, SGLANG_EACH = "stock Rust", "stock vLLM", "stock SGLang", "stock SGLang, 1"
BACKEDGE, BACKEDGE_SGLANG = "backedge", "backedge sglang"
BACKEDGE_LOWEST, BACKEDGE_HF = "backedge, lowest", "backedge, huggingface"
# Dynamo's frontend in front of our worker.
RUST_BACKEDGE = "stock Rust, ours"
SGLANG_FRONTEND = (*STOCK_FRONTEND, "--dyn-chat-processor", "sglang")
# vLLM, SGLang and Backedge have parsers of these names.
PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
DYNAMO_PARSERS = ("--dyn-tool-call-parser", "hermes", "--dyn-reasoning-parser", "qwen3")
# Lets the Python frontends accept a card with more context than the example model was
# trained for: answers are replayed, so no model has to handle it.
LONG_CONTEXT = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
# Dynamo's SGLang frontend collects 20 tokens by default, whatever the worker sends.
SHOW_EACH_TOKEN = {"DYN_SGLANG_STREAM_INTERVAL": "1"}


class Recipe(msgspec.Struct, frozen=True):
    """How to start a system's frontend, and its worker.

    worker: the flags of the worker. Systems with the same flags share one.
    """

    command: tuple[str, ...]
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    worker: tuple[str, ...] = DYNAMO_PARSERS

    def start(self, stack: Stack) -> Process:
        """Start the frontend, and wait until it listens."""
        return stack.frontend(
            *self.flags, command=self.command, port=0, wait=True, **self.environment
        )


def backedge(*flags: str, worker: tuple[str, ...] = ()) -> Recipe:
    """Return the recipe of Backedge's frontend with these flags. worker: more of the worker's."""
    processing = ("--vllm-processing", *PARSERS, *worker)
    return Recipe(BACKEDGE_FRONTEND, flags, LONG_CONTEXT, processing)


SYSTEMS = {
    RUST: Recipe(STOCK_FRONTEND),
    RUST_BACKEDGE: Recipe(STOCK_FRONTEND, worker=("--vllm-processing", *PARSERS, *DYNAMO_PARSERS)),
    VLLM: Recipe(VLLM_FRONTEND, PARSERS, LONG_CONTEXT),
    SGLANG: Recipe(SGLANG_FRONTEND, PARSERS),
    SGLANG_EACH: Recipe(SGLANG_FRONTEND, PARSERS, SHOW_EACH_TOKEN),
    BACKEDGE: backedge(),
    BACKEDGE_LOWEST: backedge(worker=("--postprocess-latency", "lowest")),
    BACKEDGE_HF: backedge("--tokenizer-backend", "huggingface"),
    BACKEDGE_SGLANG: backedge("--tokenizer-backend", "sglang"),
}


class Engine(msgspec.Struct, frozen=True):
    """The engine of the workers.

    name: "replay", or "vllm" for a real engine on the CPU.
    tokens, pace: of the replay; see the flags of `replay_worker`.
    """

    name: str
    tokens: int
    pace: float

    def start(self, stack: Stack, *flags: str) -> Process:
        """Start a worker with these flags, and with those of the replay if it is one."""
        if self.name == "vllm":
            return stack.worker(*flags)
        replay = ("--tokens", str(self.tokens), "--pace", str(self.pace))
        return stack.start(
            ("-m", "benchmarks.replay_worker", *replay, *flags), PYTHONPATH=python_path()
        )


def python_path() -> str:
    """Return a PYTHONPATH that has the benchmarks and the examples."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


class System:
    """A running frontend and its worker."""

    def __init__(self, name: str, frontend: Process, worker: Process) -> None:
        self.name = name
        self.url = frontend.url
        self._pids = (frontend.popen.pid, worker.popen.pid)

    def cpu_times(self) -> tuple[CpuTime, CpuTime]:
        """Return the CPU time of frontend and worker so far."""
        frontend, worker = self._pids
        return cpu_time(frontend), cpu_time(worker)


@contextmanager
def running(engine: Engine, folder: Path, names: Sequence[str]) -> Iterator[list[System]]:
    """Run the systems of these names while the context lasts.

    A frontend sends to every worker it discovers, so each kind of worker has a discovery folder
    of its own.
    """
    with ExitStack() as stacks:
        by_flags: dict[tuple[str, ...], tuple[Stack, Process]] = {}
        systems = []
        for name in names:
            recipe = SYSTEMS[name]
            if recipe.worker not in by_flags:
                stack = stacks.enter_context(Stack(folder / str(len(by_flags))))
                by_flags[recipe.worker] = stack, engine.start(stack, *recipe.worker)
            stack, worker = by_flags[recipe.worker]
            systems.append(System(name, recipe.start(stack), worker))
        yield systems
