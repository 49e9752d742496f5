"""The systems that are compared, each a frontend in front of a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from tools.stack import BACKEDGE_FRONTEND, STOCK_FRONTEND, VLLM_FRONTEND, Process, Stack

from .answers import ROOT
from .cpu import CpuTime, cpu_time

RUST, PYTHON, BACKEDGE = "stock Rust", "stock Python", "backedge"
VLLM_PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
DYNAMO_PARSERS = ("--dyn-tool-call-parser", "hermes", "--dyn-reasoning-parser", "qwen3")
# Lets the Python frontends accept a card with more context than the example model
# was trained for: answers are replayed, no model has to keep up.
LONG_CONTEXT = "1"


class Engine(msgspec.Struct, frozen=True):
    """What is behind the workers.

    name: "replay", or "vllm" for a real engine on the CPU.
    tokens, pace: of the replay, see `replay_worker.ReplayEngine`.
    """

    name: str
    tokens: int
    pace: float

    def start(self, stack: Stack, *flags: str) -> Process:
        """Start a worker with these parser flags."""
        if self.name == "vllm":
            return stack.worker(*flags)
        replay = ("--tokens", str(self.tokens), "--pace", str(self.pace))
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return stack.start(("-m", "benchmarks.replay_worker", *replay, *flags), PYTHONPATH=path)


class System:
    """A frontend and the worker behind it, running."""

    def __init__(self, name: str, frontend: Process, worker: Process) -> None:
        self.name = name
        self.url = frontend.url
        self._pids = (frontend.popen.pid, worker.popen.pid)

    def cpu_times(self) -> tuple[CpuTime, CpuTime]:
        """Return what frontend and worker have used so far."""
        frontend, worker = self._pids
        return cpu_time(frontend), cpu_time(worker)


@contextmanager
def running(engine: Engine, folder: Path) -> Iterator[list[System]]:
    """Run all systems, for as long as the context lasts.

    Two discovery folders, since a frontend sends to every worker it discovers:
    one with a plain worker and both stock frontends, one with Backedge.
    """
    with ExitStack() as stacks:
        stock = stacks.enter_context(Stack(folder / "stock"))
        ours = stacks.enter_context(Stack(folder / "backedge"))
        plain = engine.start(stock, *DYNAMO_PARSERS)
        processing = engine.start(ours, "--vllm-processing", *VLLM_PARSERS)
        rust = stock.frontend(command=STOCK_FRONTEND)
        python = stock.frontend(*VLLM_PARSERS, command=VLLM_FRONTEND, VLLM_ALLOW_LONG_MAX_MODEL_LEN=LONG_CONTEXT)
        backedge = ours.frontend(command=BACKEDGE_FRONTEND, VLLM_ALLOW_LONG_MAX_MODEL_LEN=LONG_CONTEXT)
        yield [
            System(RUST, rust, plain),
            System(PYTHON, python, plain),
            System(BACKEDGE, backedge, processing),
        ]
