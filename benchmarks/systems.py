"""The systems that are compared: each is a frontend with its worker."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from tools.stack import (
    BACKEDGE_FRONTEND,
    CPU_ENGINE,
    CPU_ENVIRONMENT,
    LOOPBACK,
    MODEL_NAME,
    STOCK_FRONTEND,
    TINY_MODEL,
    VLLM_FRONTEND,
    Process,
    Stack,
    free_port,
)

from .answers import ROOT
from .cpu import CpuTime, cpu_time

RUST, VLLM, SGLANG, SGLANG_EACH = "stock Rust", "stock vLLM", "stock SGLang", "stock SGLang, 1"
BACKEDGE, BACKEDGE_SGLANG = "backedge", "backedge sglang"
BACKEDGE_LOWEST, BACKEDGE_HF = "backedge, lowest", "backedge, huggingface"
# Our worker beside an unmodified vLLM with its gRPC server, and Dynamo's.
SIDECAR, RUST_SIDECAR = "backedge, sidecar", "stock Rust, sidecar"
SGLANG_FRONTEND = (*STOCK_FRONTEND, "--dyn-chat-processor", "sglang")
# vLLM, SGLang and Backedge have parsers of these names.
PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
DYNAMO_PARSERS = ("--dyn-tool-call-parser", "hermes", "--dyn-reasoning-parser", "qwen3")
# Lets the Python frontends accept a card with more context than the example model was
# trained for: answers are replayed, so no model has to handle it.
LONG_CONTEXT = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
# Dynamo's SGLang frontend collects 20 tokens by default, whatever the worker sends.
SHOW_EACH_TOKEN = {"DYN_SGLANG_STREAM_INTERVAL": "1"}
# The engine runs in a process of its own, whose time is not the server's or worker's.
OWN_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}

StartBeside = Callable[[Stack, Sequence[str]], tuple[Process, Process]]
"""Starts a worker with these flags, and its engine's server."""


class Recipe(msgspec.Struct, frozen=True):
    """How to start a system's frontend, and its worker.

    worker: the flags of the worker. Systems with the same flags share one.
    beside: starts the worker and its engine's server, for a real engine that is not the worker's.
    """

    command: tuple[str, ...]
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    worker: tuple[str, ...] = DYNAMO_PARSERS
    beside: StartBeside | None = None

    def start(self, stack: Stack) -> Process:
        """Start the frontend, and wait until it listens, or serves a worker beside its engine."""
        frontend = stack.frontend(
            *self.flags, command=self.command, port=0, wait=True, **self.environment
        )
        if self.beside is not None:
            stack.wait_for_model(frontend)
        return frontend


def backedge(*flags: str, worker: tuple[str, ...] = ()) -> Recipe:
    """Return the recipe of Backedge's frontend with these flags. worker: more of the worker's."""
    processing = ("--vllm-processing", *PARSERS, *worker)
    return Recipe(BACKEDGE_FRONTEND, flags, LONG_CONTEXT, processing)


def start_ours_beside(stack: Stack, flags: Sequence[str]) -> tuple[Process, Process]:
    """Start our worker beside vLLM's gRPC server in Python."""
    port = free_port()
    engine = stack.grpc_vllm(port, "--reasoning-parser", "qwen3", **OWN_PROCESS)
    return stack.sidecar("--engine", f"grpc://{LOOPBACK}:{port}", *flags), engine


def start_dynamos_beside(stack: Stack, flags: Sequence[str]) -> tuple[Process, Process]:
    """Start Dynamo's native worker beside vLLM's frontend in Rust."""
    port, http_port = free_port(), free_port()
    ports = ("--host", LOOPBACK, "--port", str(http_port), "--grpc-port", str(port))
    parsers = ("--reasoning-parser", "none", "--tool-call-parser", "none")
    command = ("-m", "benchmarks.rust_vllm", str(TINY_MODEL), *ports, *parsers)
    served = ("--served-model-name", MODEL_NAME)
    environment = {**CPU_ENVIRONMENT, **OWN_PROCESS}
    engine = stack.start((*command, *served, *CPU_ENGINE), port, **environment)
    worker = ("-m", "dynamo.vllm.sidecar", "--grpc-endpoint", f"{LOOPBACK}:{port}", *flags)
    return stack.run_worker(worker, wait=False), engine


SYSTEMS = {
    RUST: Recipe(STOCK_FRONTEND),
    VLLM: Recipe(VLLM_FRONTEND, PARSERS, LONG_CONTEXT),
    SGLANG: Recipe(SGLANG_FRONTEND, PARSERS),
    SGLANG_EACH: Recipe(SGLANG_FRONTEND, PARSERS, SHOW_EACH_TOKEN),
    BACKEDGE: backedge(),
    SIDECAR: msgspec.structs.replace(backedge(), beside=start_ours_beside),
    RUST_SIDECAR: Recipe(STOCK_FRONTEND, beside=start_dynamos_beside),
    BACKEDGE_LOWEST: backedge(worker=("--postprocess-latency", "lowest")),
    BACKEDGE_HF: backedge("--tokenizer-backend", "huggingface"),
    BACKEDGE_SGLANG: backedge("--tokenizer-backend", "sglang"),
}


class Engine(msgspec.Struct, frozen=True):
    """The engine of the workers.

    name: "replay"; "vllm" for a real engine on the CPU; "transformers" for `gpu_worker`.
    tokens, pace: of the replay; see the flags of `replay_worker`. flags: of all workers.
    """

    name: str
    tokens: int
    pace: float
    flags: tuple[str, ...] = ()

    def start(self, stack: Stack, *flags: str) -> Process:
        """Start a worker with these flags, and with those of the replay if it is one."""
        if self.name == "vllm":
            return stack.worker(*flags, wait=True, **OWN_PROCESS)
        if self.name == "transformers":
            scripted = ("-m", "benchmarks.gpu_worker", "--tokens", str(self.tokens))
            return stack.run_worker((*scripted, *self.flags, *flags), wait=True)
        replay = ("--tokens", str(self.tokens), "--pace", str(self.pace))
        return stack.start(("-m", "benchmarks.replay_worker", *replay, *flags))

    def start_recipe(
        self, stack: Stack, recipe: Recipe, more: Sequence[str]
    ) -> tuple[Process, Process | None]:
        """Start a recipe's worker, and its engine's server if it has one.

        more: flags besides the recipe's. Raises RuntimeError if a real engine is needed.
        """
        flags = (*recipe.worker, *more)
        if recipe.beside is None:
            return self.start(stack, *flags), None
        if self.name != "vllm":
            raise RuntimeError("a worker beside its engine needs --engine vllm")
        return recipe.beside(stack, flags)


class System:
    """A running frontend and its worker. server: the engine's, if the worker has not started it."""

    def __init__(
        self, name: str, frontend: Process, worker: Process, server: Process | None
    ) -> None:
        self.name = name
        self.url = frontend.url
        self.frontend_pid, self.worker_pid = frontend.popen.pid, worker.popen.pid
        self._server_pid = None if server is None else server.popen.pid

    def cpu_times(self) -> tuple[CpuTime, CpuTime, CpuTime]:
        """Return the CPU time of frontend, worker and the engine's server so far.

        An engine is a child of its server, or of its worker, whose time counts as the server's.
        """
        frontend, worker = cpu_time(self.frontend_pid), cpu_time(self.worker_pid)
        if self._server_pid is None:
            return frontend, CpuTime(worker.own_s, 0.0), CpuTime(0.0, worker.children_s)
        return frontend, worker, cpu_time(self._server_pid)

    def used_since(
        self, before: Sequence[CpuTime], idle: Sequence[CpuTime], elapsed_s: float
    ) -> list[CpuTime]:
        """Return the CPU time since `before`, without idle use. idle: per second."""
        return [
            late.since(early).less_idle(unused, elapsed_s)
            for early, late, unused in zip(before, self.cpu_times(), idle, strict=True)
        ]


def measure_idle(systems: Sequence[System], seconds: float) -> dict[str, tuple[CpuTime, ...]]:
    """Return what the processes of each system use per second without a request, by its name."""
    before = [system.cpu_times() for system in systems]
    time.sleep(seconds)
    return {
        system.name: tuple(
            late.since(then).per_second(seconds)
            for then, late in zip(early, system.cpu_times(), strict=True)
        )
        for system, early in zip(systems, before, strict=True)
    }


@contextmanager
def running(
    engine: Engine, names: Sequence[str], worker_flags: Sequence[str] = ()
) -> Iterator[list[System]]:
    """Run the systems of these names while the context lasts.

    worker_flags: of all workers, besides each system's own. A frontend sends to every worker it
    discovers, so each kind of worker has a discovery folder of its own.
    """
    by_worker: dict[
        tuple[tuple[str, ...], StartBeside | None], tuple[Stack, Process, Process | None]
    ] = {}
    systems = []
    with ExitStack() as stacks:
        folder = Path(stacks.enter_context(tempfile.TemporaryDirectory()))
        for name in names:
            recipe = SYSTEMS[name]
            key = recipe.worker, recipe.beside
            if key not in by_worker:
                stack = Stack(folder / str(len(by_worker)), PYTHONPATH=python_path())
                stacks.enter_context(stack)
                by_worker[key] = (stack, *engine.start_recipe(stack, recipe, worker_flags))
            stack, worker, server = by_worker[key]
            systems.append(System(name, recipe.start(stack), worker, server))
        yield systems


def python_path() -> str:
    """Return a PYTHONPATH with the benchmarks and the examples."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
