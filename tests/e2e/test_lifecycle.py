"""Models come and go, and with them all that the frontend holds for them."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import openai
import pytest

from tests.e2e.client import Client
from tests.support import TRANSCRIPTS
from tools.stack import MODEL_NAME, Process, Stack, fetch

TURNS = 50
# What allocators and imports on first use may still take behind the first turns.
SPARE_MB = 8
DEADLINE_S = 30.0


class Figures:
    """What a process holds: threads, open files, and megabytes."""

    def __init__(self, process: Process) -> None:
        proc = Path(f"/proc/{process.popen.pid}")
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        self.threads = int(status["Threads"])
        self.files = len(list((proc / "fd").iterdir()))
        self.megabytes = int(status["VmRSS"].split()[0]) / 1024


def turn(stack: Stack, frontend: Process) -> None:
    """Start the model's only instance, be served by it, and end it."""
    worker = stack.embedded("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", wait=False)
    stack.wait_for_model(frontend)
    deadline = time.monotonic() + DEADLINE_S
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
    while f'"{MODEL_NAME}"' in fetch(frontend.url + "/v1/models"):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("backend", ["huggingface", "vllm", "sglang"])
def test_the_last_instance_takes_all_with_it_fifty_times(tmp_path: Path, backend: str) -> None:
    with Stack(tmp_path) as stack:
        frontend = stack.frontend("--tokenizer-backend", backend)
        seen = []
        for _ in range(TURNS):
            turn(stack, frontend)
            seen.append(Figures(frontend))
        early, late = seen[5 : TURNS // 2], seen[TURNS // 2 :]
        assert max(figures.threads for figures in late) <= max(figures.threads for figures in early) + 2
        assert max(figures.files for figures in late) <= max(figures.files for figures in early) + 2
        assert late[-1].megabytes <= early[0].megabytes + SPARE_MB
