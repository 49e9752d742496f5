"""A real Dynamo stack on loopback; every frontend and worker is a process.

    with Stack(folder) as stack:
        stack.worker("--vllm-processing", "--tool-call-parser", "hermes")
        frontend = stack.frontend()
        stack.wait_for_model(frontend)

Each process writes its log into the folder. All end with the context, including on Ctrl-C and
SIGTERM; a second signal ends them at once.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, Self

from tools.machine import explain_missing

ROOT = Path(__file__).parent.parent
TINY_MODEL = ROOT / "examples" / "tiny_model"
MODEL_NAME = "tiny"
LOOPBACK = "127.0.0.1"

REPLAY_WORKER = ("-m", "backedge.worker.demo")
BACKEDGE_FRONTEND = ("-m", "backedge.frontend")
STOCK_FRONTEND = ("-m", "dynamo.frontend")
VLLM_FRONTEND = ("-m", "dynamo.frontend", "--dyn-chat-processor", "vllm")
# Needs no engine, but may run where one is installed.
HUGGINGFACE_FRONTEND = (*BACKEDGE_FRONTEND, "--tokenizer-backend", "huggingface")

# vLLM's CPU attention needs blocks of a multiple of 32 tokens. The engine zeroes its whole cache at
# the start: 4096 blocks take 0.2 GB instead of 1.
CPU_ENGINE = (
    *("--enforce-eager", "--dtype", "float32", "--max-model-len", "2048"),
    *("--block-size", "32", "--num-gpu-blocks-override", "4096"),
    *("--distributed-executor-backend", "uni"),
)
CPU_ENVIRONMENT = {
    # Without this, vLLM runs a CPU model in another process, which imports everything again.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Engines compile their samplers on first use; that takes 20 s and never pays off here.
    "TORCHDYNAMO_DISABLE": "1",
}
# Without --sleep-on-idle, SGLang's scheduler spins on a core.
SGLANG_CPU_ENGINE = (
    *("--device", "cpu", "--dtype", "float32"),
    *("--attention-backend", "torch_native", "--sampling-backend", "pytorch"),
    *("--context-length", "2048", "--max-total-tokens", "4096", "--max-running-requests", "32"),
    *("--disable-cuda-graph", "--skip-server-warmup", "--sleep-on-idle"),
)
CPU_ENGINES = (CPU_ENGINE, SGLANG_CPU_ENGINE)
# The gRPC server of engines, with packages that none of our own processes may import.
GRPC_SERVER = ROOT / ".venv" / "grpc-server"
# TensorRT-LLM does not run on a CPU; tests use a stand-in.
TRTLLM_STANDIN = ("--gpus-per-node", "1", "--max-seq-len", "2048")
STANDIN = ROOT / "tests" / "standin"

# tools/gpu_check sets this to "gpu"; several small engines then share the GPU.
DEVICE_VARIABLE = "BACKEDGE_TEST_DEVICE"
ON_GPU = os.environ.get(DEVICE_VARIABLE) == "gpu"
VLLM_GPU_ENGINE = (
    *("--enforce-eager", "--max-model-len", "2048", "--gpu-memory-utilization", "0.08"),
)
SGLANG_GPU_ENGINE = (
    *("--context-length", "2048", "--max-total-tokens", "16384", "--mem-fraction-static", "0.08"),
    *("--disable-cuda-graph", "--skip-server-warmup"),
)
TRTLLM_GPU_ENGINE = ("--max-seq-len", "2048", "--free-gpu-memory-fraction", "0.08")
VLLM_ENGINE = VLLM_GPU_ENGINE if ON_GPU else CPU_ENGINE
SGLANG_ENGINE = SGLANG_GPU_ENGINE if ON_GPU else SGLANG_CPU_ENGINE
TRTLLM_ENGINE = TRTLLM_GPU_ENGINE if ON_GPU else TRTLLM_STANDIN
START_TIMEOUT_S = 480.0
STOP_TIMEOUT_S = 20.0


class StackError(RuntimeError):
    """A process of the stack ended or failed to start; the message shows the end of its log."""


class MissingPartError(StackError, unittest.SkipTest):
    """The machine lacks what a process needs; a test that starts it is skipped."""


class Running(Protocol):
    """The part of subprocess.Popen that `Process` uses."""

    @property
    def pid(self) -> int:
        """Also the id of the process's group and session."""

    def poll(self) -> int | None:
        """Return the exit status, None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raises subprocess.TimeoutExpired; timeout: in seconds."""

    def terminate(self) -> None:
        """Send SIGTERM."""


class Stack:
    """The processes that share one discovery folder; all end with the context.

    folder: for discovery and the logs. environment: variables of all processes,
    overriding those of the stack. python: runs the processes.
    """

    python = sys.executable

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.processes: list[Process] = []
        self.environment = {
            **os.environ,
            "DYN_DISCOVERY_BACKEND": "file",
            "DYN_FILE_KV": str(folder / "discovery"),
            "DYN_REQUEST_PLANE": "tcp",
            "DYN_TCP_RPC_HOST": LOOPBACK,
            "DYN_TCP_RESPONSE_STREAM_HOST": LOOPBACK,
            "DYN_EVENT_PLANE_HOST": LOOPBACK,
            "DYN_HTTP_HOST": LOOPBACK,
            "DYN_SYSTEM_HOST": LOOPBACK,
            # Two busy cores exceed the default of 5 s.
            "DYN_TCP_REQUEST_TIMEOUT": "60",
            # Dynamo's workers wait 5 s at the end for requests that are still on the way.
            "DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS": "0",
            # A backtrace in Dynamo's log costs 50 MB of symbols for good (docs/upstream.md).
            "RUST_BACKTRACE": "0",
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "SGLANG_USE_CPU_ENGINE": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "PYTHONUNBUFFERED": "1",
            **environment,
        }

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        end_on_sigterm()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def worker(
        self,
        *flags: str,
        model: str | Path = TINY_MODEL,
        name: str = MODEL_NAME,
        engine: Sequence[str] = VLLM_ENGINE,
        wait: bool = True,
        **environment: str,
    ) -> Process:
        """Start a vLLM worker; its `url` serves /metrics.

        model: a path or name. name: under which it is served.
        environment: variables besides those of the stack and of the CPU engine.
        """
        model_flags = ("--model", str(model), "--served-model-name", name)
        command = ("-m", "dynamo.vllm", *model_flags, *engine, *flags)
        return self.run_worker(command, wait=wait, **{**engine_environment(engine), **environment})

    def sglang(
        self,
        *flags: str,
        model: str | Path = TINY_MODEL,
        name: str = MODEL_NAME,
        engine: Sequence[str] = SGLANG_ENGINE,
        module: str = "dynamo.sglang",
        wait: bool = True,
        **environment: str,
    ) -> Process:
        """Start an SGLang worker; parameters as for `worker`. module: the Python module to run."""
        # SGLang picks a port from the range of outgoing connections long before it listens, so
        # another process may take it in the meantime.
        own = ("--served-model-name", name, "--nccl-port", str(free_port()))
        command = ("-m", module, "--model-path", str(model), *own, *engine, *flags)
        return self.run_worker(command, wait=wait, **{**engine_environment(engine), **environment})

    def trtllm(
        self,
        *flags: str,
        model: str | Path = TINY_MODEL,
        name: str = MODEL_NAME,
        engine: Sequence[str] = TRTLLM_ENGINE,
        module: str = "dynamo.trtllm",
        wait: bool = True,
        **environment: str,
    ) -> Process:
        """Start a TensorRT-LLM worker, by default with the stand-in for the engine.

        Parameters as for `sglang`.
        """
        model_flags = ("--model", str(model), "--served-model-name", name)
        variables = {"PYTHONPATH": standin_path()} if engine == TRTLLM_STANDIN else {}
        command = ("-m", module, *model_flags, *engine, *flags)
        return self.run_worker(command, wait=wait, **{**variables, **environment})

    def grpc_vllm(
        self, port: int, *flags: str, engine: Sequence[str] = VLLM_ENGINE, **environment: str
    ) -> Process:
        """Start an unmodified vLLM with its gRPC server; `sidecar` is its worker."""
        server = ("--model", str(TINY_MODEL), "--host", LOOPBACK, "--port", str(port))
        command = ("-m", "vllm.entrypoints.launchers.grpc_server", *server, *engine, *flags)
        variables = {**engine_environment(engine), "PYTHONPATH": str(GRPC_SERVER)}
        return self.start(command, port, **{**variables, **environment})

    def grpc_sglang(self, port: int, *flags: str, engine: Sequence[str] = SGLANG_ENGINE) -> Process:
        """Start an unmodified SGLang with its gRPC server; `sidecar` is its worker."""
        server = ("--model-path", str(TINY_MODEL), "--host", LOOPBACK, "--port", str(port))
        own = ("--smg-grpc-mode", "--nccl-port", str(free_port()))
        command = ("-m", "sglang.launch_server", *server, *own, *engine, *flags)
        variables = {**engine_environment(engine), "PYTHONPATH": str(GRPC_SERVER)}
        return self.start(command, port, **variables)

    def sidecar(self, *flags: str, name: str = MODEL_NAME, **environment: str) -> Process:
        """Start a worker beside an engine; do not wait for it. flags: --engine and more."""
        model_flags = ("--model", str(TINY_MODEL), "--served-model-name", name)
        command = ("-m", "backedge.worker.sidecar", *model_flags, *flags)
        return self.run_worker(command, wait=False, **environment)

    def transformers(
        self,
        *flags: str,
        model: str | Path = TINY_MODEL,
        name: str = MODEL_NAME,
        wait: bool = True,
        **environment: str,
    ) -> Process:
        """Start a worker around transformers; parameters as for `worker`."""
        model_flags = ("--model", str(model), "--served-model-name", name)
        command = ("-m", "backedge.worker.transformers", *model_flags, *flags)
        return self.run_worker(command, wait=wait, **environment)

    def replay(
        self,
        *flags: str,
        name: str = MODEL_NAME,
        command: Sequence[str] = REPLAY_WORKER,
        wait: bool = True,
        **environment: str,
    ) -> Process:
        """Start a worker that replays the example transcripts; parameters as for `worker`."""
        started = (*command, "--served-model-name", name, *flags)
        return self.run_worker(started, wait=wait, **environment)

    def run_worker(self, command: Sequence[str], *, wait: bool, **environment: str) -> Process:
        """Start any worker, as a command of its own."""
        port = free_port()
        process = self.start(
            command, port, DYN_SYSTEM_PORT=str(port), DYN_SYSTEM_ENABLED="true", **environment
        )
        if wait:
            process.wait_for(lambda: worker_is_ready(process.url))
        return process

    def frontend(
        self,
        *flags: str,
        command: Sequence[str] = BACKEDGE_FRONTEND,
        port: int = 0,
        wait: bool = True,
        **environment: str,
    ) -> Process:
        """Start a frontend, and wait until it listens; its `url` ends before /v1.

        Raises `StackError` if `port` is taken: that server would answer in its place.
        """
        if port and not is_free(port):
            raise StackError(f"port {port} is taken by another program; set PORT to another one")
        port = port or free_port()
        process = self.start((*command, "--http-port", str(port), *flags), port, **environment)
        if wait:
            process.wait_for(process.answers)
        return process

    def wait_for_model(self, frontend: Process, name: str = MODEL_NAME) -> None:
        """Wait until `frontend` serves a model of this name.

        Raises `StackError` if a process of the stack ends in the meantime.
        """
        started = [process for process in self.processes if process.popen.poll() is None]

        def served() -> bool:
            for process in started:
                process.check()
            return f'"{name}"' in fetch(frontend.url + "/v1/models")

        frontend.wait_for(served)

    def start(self, command: Sequence[str], port: int = 0, **environment: str) -> Process:
        """Start `python command...` with the stack's environment."""
        log = self.folder / f"{len(self.processes)}-{command[1].rsplit('.', 1)[-1]}.log"
        running = self.launch(command, log, {**self.environment, **environment})
        process = Process(running, log, port)
        self.processes.append(process)
        return process

    def launch(self, command: Sequence[str], log: Path, environment: dict[str, str]) -> Running:
        """Start `python command...` in a new session. environment: all its variables."""
        with log.open("wb") as output:
            return subprocess.Popen(
                [self.python, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End all processes, the frontends first, and wait for them.

        A further signal kills the remaining ones.
        """
        try:
            for process in reversed(self.processes):
                process.terminate()
            for process in self.processes:
                process.reap()
        except BaseException:
            for process in self.processes:
                process.kill()
            raise


class Process:
    """A process of the stack, in a new session with its children, such as the engine."""

    def __init__(self, popen: Running, log: Path, port: int) -> None:
        self.log = log
        self.url = f"http://{LOOPBACK}:{port}"
        self.popen = popen

    def wait_for(self, ready: Callable[[], bool], timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until `ready()`. Raises `StackError` if the process ends or time runs out."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise StackError(
                    f"{self.log.name} was not ready after {timeout_s:.0f} s:\n{self.tail()}"
                )
            time.sleep(0.2)

    def check(self) -> None:
        """Raise `StackError` if the process has ended."""
        if (status := self.popen.poll()) is not None:
            raise StackError(f"{self.log.name} ended with status {status}:\n{self.tail()}")

    def answers(self) -> bool:
        """Whether this frontend answers HTTP requests."""
        return bool(fetch(self.url + "/v1/models"))

    def tail(self, lines: int = 40) -> str:
        """Return the end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """Kill the whole group at once."""
        self._signal(signal.SIGKILL)
        self.popen.wait()

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        if self.popen.poll() is None:
            self.popen.terminate()

    def reap(self) -> None:
        """Wait for the end, and kill what remains of the group."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(STOP_TIMEOUT_S)
        self._signal(signal.SIGKILL)
        self.popen.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, number)


def end_on_sigterm() -> None:
    """Make SIGTERM raise KeyboardInterrupt, so that contexts end; otherwise it skips them.

    Does nothing outside the main thread, or if the program handles SIGTERM itself.
    """
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def engine_environment(engine: Sequence[str]) -> dict[str, str]:
    """Return the variables that an engine's flags need; {} for a GPU.

    Raises `MissingPartError` without the library and the program that vLLM's CPU build needs.
    """
    if engine == CPU_ENGINE and (missing := explain_missing(["libnuma", "lscpu"])):
        raise MissingPartError(f"not on this machine: {missing}")
    return CPU_ENVIRONMENT if engine in CPU_ENGINES else {}


def standin_path() -> str:
    """Return the stand-in's `PYTHONPATH`: Dynamo 1.7 asks for another release than 1.6."""
    newer = not importlib.metadata.version("ai-dynamo").startswith("1.6.")
    return os.pathsep.join(map(str, (STANDIN / "newer", STANDIN) if newer else (STANDIN,)))


# A server may listen only seconds after its port was chosen. Until this process ends, a UDP socket
# with the same number keeps other stacks, also of other processes, from choosing it.
_TAKEN: list[socket.socket] = []


def free_port() -> int:
    """Return a free port of the loopback interface, which no other stack gets.

    Dynamo reads the port of /metrics as a signed 16-bit number, so below 32768.
    """
    while True:
        port = random.randrange(20000, 32000)
        mark = socket.socket(type=socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            mark.bind((LOOPBACK, port))
            if is_free(port):
                _TAKEN.append(mark)
                return port
        mark.close()


def is_free(port: int) -> bool:
    """Whether no program listens on this port of the loopback interface."""
    with socket.socket() as listener:
        return listener.connect_ex((LOOPBACK, port)) != 0


def fetch(url: str) -> str:
    """Return the body; "" if there is no answer (yet)."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            body: bytes = response.read()
            return body.decode()
    except (urllib.error.URLError, OSError):
        return ""


def metric(url: str, name: str) -> float:
    """Return the sum of a metric over its labels, from `url`/metrics; 0.0 without samples."""
    samples = [
        line.rsplit(" ", 1)
        for line in fetch(url + "/metrics").splitlines()
        if line.startswith(name)
    ]
    return sum(float(value) for labels, value in samples if labels.split("{")[0] == name)


def worker_is_ready(url: str) -> bool:
    """Whether the worker has registered its model."""
    return '"status":"ready"' in fetch(url + "/health").replace(" ", "")
