"""A stack for the tests of clients: a frontend, and a worker that replays their transcripts.

    .venv/bin/python -m tests.clients.stack FOLDER

prints the frontend's URL and ends with its standard input: the clients are in an environment of
their own, without Dynamo.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from tests.support import write
from tools.stack import HUGGINGFACE_FRONTEND, TINY_MODEL, Stack

TRANSCRIPTS = Path(__file__).parent / "transcripts"
WORKER = (
    *("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"),
    *("--transcripts", str(TRANSCRIPTS), "--match", "end", "--postprocess-latency", "lowest"),
)
# Agents' system prompts alone are longer than the example model's context.
CONTEXT_LENGTH = 32768


def copy_model(folder: Path) -> Path:
    """Return a copy of the example model, without weights and with room for an agent's prompt."""
    shutil.copytree(TINY_MODEL, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "max_position_embeddings": CONTEXT_LENGTH}))
    return folder


def main() -> None:
    """Run the stack until the standard input ends."""
    folder = Path(sys.argv[1])
    with Stack(folder) as stack:
        stack.replay(*WORKER, "--model", str(copy_model(folder / "model")), wait=False)
        frontend = stack.frontend(
            "--enable-anthropic-api", command=HUGGINGFACE_FRONTEND, wait=False
        )
        stack.wait_for_model(frontend)
        write(frontend.url)
        sys.stdin.read()


if __name__ == "__main__":
    main()
