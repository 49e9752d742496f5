"""A stack whose processes are forked from one that has imported vLLM, and so are their engines'.

A vLLM worker then starts with 6 s of computing time instead of 37 s, one of SGLang with 12 s
instead of 58 s; the rest are imports in the worker, the engine and its helpers. The forked process
runs the same module with the same arguments and variables as `python -m` does. For TensorRT-LLM
that has to be `TRTLLM`: torch, which loads our plugin into Dynamo's own module, was imported
before.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prometheus_client import values
from typing_extensions import override

from tools.stack import Running, Stack

# Read when torch is imported, here once for all processes.
os.environ.setdefault("OMP_NUM_THREADS", "1")

TRTLLM = "backedge.worker.trtllm"
PRELOADED = ["dynamo.vllm.main", "tests.e2e.forked"]


class ForkingStack(Stack):
    """Forks its processes."""

    @override
    def launch(self, command: Sequence[str], log: Path, environment: dict[str, str]) -> Running:
        return Forked(command, log, environment)


class Forked(Running):
    """A forked process."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._process = context.Process(target=run, args=(command, log, environment))
        self._process.start()
        assert self._process.pid is not None
        self._pid = self._process.pid

    @property
    @override
    def pid(self) -> int:
        return self._pid

    @override
    def poll(self) -> int | None:
        return self._process.exitcode

    @override
    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode

    @override
    def terminate(self) -> None:
        self._process.terminate()


def run(command: Sequence[str], log: Path, environment: dict[str, str]) -> None:
    """Run `python -m MODULE ARGUMENTS...` in this process. command: begins with "-m"."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    # Python reads this variable only when it starts.
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    _, module, *arguments = command
    fork_engines()
    if "sglang" in module:
        share_metrics()
    sys.argv = [module, *arguments]
    sys.orig_argv = [sys.executable, "-m", *sys.argv]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def share_metrics() -> None:
    """Have prometheus_client find out late whether processes share a folder of metrics.

    It looks for the variable when it is imported, which is after SGLang has set it, but for us.
    """

    @functools.cache
    def choose(_: str | None) -> Any:
        return values.get_value_class()

    def create(*args: Any, **options: Any) -> Any:
        return choose(os.environ.get("PROMETHEUS_MULTIPROC_DIR"))(*args, **options)

    setattr(values, "ValueClass", create)  # noqa: B010 - it has another type


def fork_engines() -> None:
    """Have an engine's own processes forked as well: spawned, each would import it again.

    vLLM forks them on a GPU, and spawns them on a CPU; SGLang always spawns.
    """
    from dynamo import nixl_connect

    # Where NIXL is missing, `hasattr` of these raises, and vLLM looks at all it has imported.
    nixl_connect.nixl_api = nixl_connect.nixl_bindings = None
    get_context, set_start_method = multiprocessing.get_context, multiprocessing.set_start_method

    def choose(method: str | None) -> str | None:
        return "fork" if method == "spawn" else method

    def choose_context(method: str | None = None) -> Any:
        return get_context(choose(method))

    def choose_start(method: str | None, force: bool = False) -> None:
        set_start_method(choose(method), force)

    setattr(multiprocessing, "get_context", choose_context)  # noqa: B010 - overloaded
    multiprocessing.set_start_method = choose_start
