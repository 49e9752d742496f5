"""Models come and go; the frontend releases what it holds for them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import openai

from tests.e2e.client import Client
from tests.e2e.forked import ForkingStack
from tests.pairwise import WHOLE
from tests.support import TRANSCRIPTS
from tools.stack import MODEL_NAME, Process, Stack, fetch

# What is kept of each turn shows in few of them, a little of it in many.
TURNS = 50 if WHOLE else 16
BACKENDS = ("huggingface", "vllm", "sglang")
# Allocators, imports on first use and thread pools may take this much more after the first turns.
SPARE = {"threads": 4, "files": 4, "megabytes": 8.0}
DEADLINE_S = 120.0


class Figures:
    """A process's threads, open files, and resident megabytes."""

    def __init__(self, process: Process) -> None:
        proc = Path(f"/proc/{process.popen.pid}")
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        self.threads = int(status["Threads"])
        self.files = len(list((proc / "fd").iterdir()))
        self.megabytes = int(status["VmRSS"].split()[0]) / 1024


def turn(stack: Stack, frontends: Sequence[Process]) -> None:
    """Start the model's only instance, ask it through each frontend, and end it."""
    worker = stack.replay("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", wait=False)
    deadline = time.monotonic() + DEADLINE_S
    for frontend in frontends:
        stack.wait_for_model(frontend)
        answer = None
        while answer is None:
            # The model is listed a moment before its route is there.
            with contextlib.suppress(openai.APIStatusError):
                answer = Client(frontend.url, MODEL_NAME).ask(TRANSCRIPTS["reasoning_call"])
            assert time.monotonic() < deadline
        assert answer.message == TRANSCRIPTS["reasoning_call"]["expect"]
    worker.terminate()
    worker.reap()
    stack.processes.remove(worker)
    while any(f'"{MODEL_NAME}"' in fetch(frontend.url + "/v1/models") for frontend in frontends):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_last_instance_takes_all_with_it(tmp_path: Path) -> None:
    with ForkingStack(tmp_path) as stack:
        frontends = [
            stack.frontend("--tokenizer-backend", backend, wait=False) for backend in BACKENDS
        ]
        for frontend in frontends:
            frontend.wait_for(frontend.answers)
        seen: list[list[Figures]] = []
        for _ in range(TURNS):
            turn(stack, frontends)
            seen.append([Figures(frontend) for frontend in frontends])
        for backend, figures in zip(BACKENDS, zip(*seen, strict=True), strict=True):
            early, late = figures[5:8], figures[-3:]
            for name, spare in SPARE.items():
                # What closes a moment later is there in one turn of three, what is kept in all.
                first, last = (min(getattr(each, name) for each in part) for part in (early, late))
                assert last <= first + spare, f"{backend}: {name} grew from {first} to {last}"
