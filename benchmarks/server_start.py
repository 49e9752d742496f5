"""`vllm serve` beside an installed Backedge whose names no flag has: its start and its answers.

    python -m benchmarks.server_start PYTHON [--json] [--rounds 5]

PYTHON is that of an environment with vLLM and without Backedge, which this module installs into a
folder and shows to every other server. A round starts one server without it and one with it, in
turn. Both answer the example conversations, whole and streamed, with vLLM's own parsers. One more
server says what it imports.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

from tests.e2e.client import ask_transcripts
from tools.stack import (
    CPU_ENVIRONMENT,
    LOOPBACK,
    MODEL_NAME,
    ROOT,
    TINY_MODEL,
    VLLM_ENGINE,
    Process,
    Stack,
    free_port,
)

from .cpu import cpu_time
from .report import build_parser, compare_rounds, rotate, show

PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
SERVE = ("-m", "vllm.entrypoints.cli.main", "serve", str(TINY_MODEL))
COMMAND = (*SERVE, *VLLM_ENGINE, "--enable-auto-tool-choice", *PARSERS)
# A line of Python's own report of what a process imports (PYTHONVERBOSE).
IMPORTED = re.compile(r"import '(backedge(?:\.\w+)*)' #")


class Start(msgspec.Struct):
    """The start of a server, until it answers. cpu_s: of all its processes."""

    wall_s: float
    cpu_s: float


class Row(msgspec.Struct):
    """The medians of the rounds, and of their ratios: with Backedge, divided by without."""

    rounds: int
    without_s: float
    with_s: float
    ratio: float
    cpu_without_s: float
    cpu_with_s: float
    cpu_ratio: float
    answers: int
    equal: int


class Imported(msgspec.Struct):
    """A module of Backedge that a server imports, with the number of its processes that do so."""

    module: str
    processes: int


def install(folder: Path) -> None:
    """Install this checkout's package, without what it needs."""
    target = ("--no-deps", "--no-build-isolation", "--target", str(folder / "installed"))
    source = folder / "source"  # setuptools leaves a build folder where it builds
    left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, source, ignore=left_out)
    subprocess.run([sys.executable, "-m", "pip", "-q", "install", *target, source], check=True)


def start(stack: Stack, **environment: str) -> tuple[Process, Start]:
    """Start a server and wait until it answers."""
    port = free_port()
    own = ("--served-model-name", MODEL_NAME, "--host", LOOPBACK, "--port", str(port))
    began = time.monotonic()
    process = stack.start((*COMMAND, *own), port, **CPU_ENVIRONMENT, **environment)
    process.wait_for(process.answers)
    return process, Start(time.monotonic() - began, cpu_time(process.popen.pid).total_s)


def ask(process: Process) -> dict[object, object]:
    """Return the messages of all example conversations."""
    answers = ask_transcripts(process, MODEL_NAME, lenient=True)
    return {key: future.result().message for key, future in answers.items()}


def measure(stack: Stack, rounds: int, installed: str) -> Row:
    """Return the row of some rounds."""
    starts: dict[str, list[Start]] = {"": [], installed: []}
    asked = equal = 0
    for number in range(rounds):
        answers = {}
        for path in rotate(list(starts), number):
            process, one = start(stack, PYTHONPATH=path)
            starts[path].append(one)
            answers[path] = ask(process)
            process.kill()
        asked += len(answers[""])
        equal += sum(answers[installed][key] == found for key, found in answers[""].items())
    walls = {path: [one.wall_s for one in each] for path, each in starts.items()}
    cpus = {path: [one.cpu_s for one in each] for path, each in starts.items()}
    return Row(
        rounds,
        statistics.median(walls[""]),
        statistics.median(walls[installed]),
        compare_rounds(walls[installed], walls[""]),
        statistics.median(cpus[""]),
        statistics.median(cpus[installed]),
        compare_rounds(cpus[installed], cpus[""]),
        asked,
        equal,
    )


def find_imported(stack: Stack, installed: str) -> list[Imported]:
    """Return what a server imports of Backedge, all conversations answered."""
    process, _ = start(stack, PYTHONPATH=installed, PYTHONVERBOSE="1")
    ask(process)
    process.kill()
    names = IMPORTED.findall(process.log.read_text(errors="replace"))
    return [Imported(name, count) for name, count in Counter(names).items()]


def main() -> None:
    """Print both tables."""
    parser = build_parser(__doc__, rounds=5)
    parser.add_argument("python", help="of an environment with vLLM and without Backedge")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Stack(Path(name) / "stack") as stack:
        install(Path(name))
        stack.python = arguments.python
        installed = str(Path(name) / "installed")
        rows = measure(stack, arguments.rounds, installed)
        imported = find_imported(stack, installed)
    show({"start and answers": [rows], "imported": imported}, as_json=arguments.json)


if __name__ == "__main__":
    main()
