"""Kills a batch over and over: its sorted output must equal an uninterrupted run's, byte for byte.

    python -m tests.offline.kills vllm --rows 300 --kills 10

In turn this kills the command, the engine's processes, and both, each at a random row. A kill
counts if rows were running. Rows are answers, with --embeddings embeddings. Of each killed engine
it prints the command's exit status, and how many seconds the command lived on.
Exit status 1: an output differs.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.offline_batch import ARGUMENTS, ENVIRONMENT
from tests.support import TINY_MODEL, write

VICTIMS = {"ours": (True, False), "engine": (False, True), "both": (True, True)}
# What lets a back end take seeds.
SEEDED = {"sglang": [("enable_deterministic_inference", True)]}
# A block of 256 inputs is embedded together.
INPUTS = 16


def build_row(row: int, given: argparse.Namespace) -> dict[str, Any]:
    if given.embeddings:
        inputs = [f"Say {row}, {each}" for each in range(INPUTS)]
        return {"url": "/v1/embeddings", "body": {"input": inputs}}
    body = {
        "messages": [{"role": "user", "content": f"Say {row}"}],
        "max_tokens": given.tokens,
        "ignore_eos": True,
        "temperature": 0.8,
        "seed": row,
    }
    return {"body": body}


def write_rows(path: Path, given: argparse.Namespace) -> Path:
    lines = [{"custom_id": f"row-{row}", **build_row(row, given)} for row in range(given.rows)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def build_command(given: argparse.Namespace, source: Path, output: Path) -> list[str]:
    arguments: dict[str, Any] = {**ARGUMENTS[given.backend], **dict(given.engine_args)}
    flags = {
        "--model": given.model,
        "--backend": given.backend,
        "--dtype": given.dtype,
        "--max-model-len": 2048,
        "--input": source,
        "--output": output,
    }
    command = [sys.executable, "-m", "backedge.offline"]
    command += [str(part) for flag in flags.items() for part in flag]
    for name, value in arguments.items():
        command += ["--engine-args", f"{name}={json.dumps(value)}"]
    return command


def count_rows(output: Path) -> int:
    return output.read_bytes().count(b"\n") if output.exists() else 0


def find_children(parent: int) -> list[int]:
    """Return all processes that descend from one."""
    parents = collections.defaultdict[int, list[int]](list)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        parents[int(stat.rpartition(")")[2].split()[1])].append(int(folder.name))
    found = list(parents[parent])
    for child in found:
        found += parents[child]
    return found


def kill_at(
    command: Sequence[str], output: Path, goal: int, victims: str, log: Any
) -> tuple[int, float] | None:
    """Run the command until the output has `goal` rows, and kill.

    Return its exit status, and the seconds that it lived on; None if no row was left.
    """
    ours, engines = VICTIMS[victims]
    with subprocess.Popen(command, stderr=log, stdout=log) as process:
        while process.poll() is None and count_rows(output) < goal:
            time.sleep(0.002)
        running = process.poll() is None
        children = find_children(process.pid) if engines else []
        for victim in [*([process.pid] if ours else []), *children] if running else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        process.wait()
    if not running or process.returncode == 0:
        return None
    return process.returncode, round(time.monotonic() - killed, 1)


def run(given: argparse.Namespace, folder: Path) -> bool:
    """Run to the end, and again with kills; return whether all outputs are equal."""
    os.environ.update(ENVIRONMENT, TORCHDYNAMO_DISABLE="1")  # compiling takes a minute
    source = write_rows(folder / "in.jsonl", given)
    whole, output = folder / "whole.jsonl", folder / "out.jsonl"
    chance = random.Random(given.seed)
    counts = collections.Counter[str]()
    ends: list[tuple[int, float]] = []
    with (folder / "log").open("wb") as log:
        subprocess.run(build_command(given, source, whole), stderr=log, stdout=log, check=True)
        expected = sorted(whole.read_bytes().splitlines())
        equal = True
        kinds = [kind for kind in VICTIMS if given.backend != "hf" or kind == "ours"]
        command = build_command(given, source, output)
        while equal and counts.total() < given.kills:
            kind = kinds[counts.total() % len(kinds)]
            goal = count_rows(output) + chance.randint(1, max(given.rows // given.kills, 1))
            ended = kill_at(command, output, goal, kind, log)
            counts[kind] += ended is not None
            if kind == "engine" and ended is not None:
                ends.append(ended)
            if count_rows(output) == given.rows:
                equal = sorted(output.read_bytes().splitlines()) == expected
                output.unlink()
        subprocess.run(command, stderr=log, stdout=log, check=equal)
        equal = equal and sorted(output.read_bytes().splitlines()) == expected
    result = {
        "backend": given.backend,
        "rows": given.rows,
        "what": "embeddings" if given.embeddings else "answers",
        "kills": counts,
        "exits without engine": ends,
        "identical": equal,
    }
    write(json.dumps(result))
    return equal


def parse_pair(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    return name, json.loads(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend", choices=[*ARGUMENTS])
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model", type=Path, default=TINY_MODEL)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--engine-args", type=parse_pair, action="append", default=[])
    parser.add_argument("--embeddings", action="store_true")
    given = parser.parse_args()
    if not given.embeddings:
        given.engine_args += SEEDED.get(given.backend, [])
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(not run(given, Path(folder)))


if __name__ == "__main__":
    main()
