"""A real engine that follows the script, and two frontends: one keeps turns exactly, one does not.

    .venv/bin/python -m tests.clients.scripted.stack FOLDER ENGINE

prints the frontends' URLs in one line and ends with its standard input. The worker records what
its engine read and wrote into FOLDER/recordings.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support import write
from tools.stack import HUGGINGFACE_FRONTEND, ROOT, Process, Stack

MODES = ("off", "exact")
PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")


def start_worker(stack: Stack, engine: str) -> Process:
    recordings = stack.folder / "recordings"
    record = ("--postprocess-record", str(recordings), "--postprocess-record-content", "on")
    if engine == "vllm":
        logits = ("--logits-processors", "tests.clients.scripted.vllm_logits:Scripted")
        return stack.worker("--vllm-processing", *PARSERS, *logits, *record, wait=False)
    return stack.sglang(
        *("--sglang-processing", "--enable-custom-logit-processor", *PARSERS, *record),
        module="tests.clients.scripted.sglang_worker",
        wait=False,
    )


def main() -> None:
    """Run the stack until the standard input ends."""
    folder, engine = sys.argv[1:]
    with Stack(Path(folder), PYTHONPATH=str(ROOT)) as stack:
        start_worker(stack, engine)
        frontends = [
            stack.frontend("--keep-turns", mode, command=HUGGINGFACE_FRONTEND, wait=False)
            for mode in MODES
        ]
        for frontend in frontends:
            stack.wait_for_model(frontend)
        write(" ".join(frontend.url for frontend in frontends))
        sys.stdin.read()


if __name__ == "__main__":
    main()
