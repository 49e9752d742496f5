"""`make run`: a real frontend and worker stream two answers, then run until Ctrl-C."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from backedge.base.flags import MAX_DIGITS, MAX_PORT

from tools.stack import (
    CPU_ENGINE,
    MODEL_NAME,
    ROOT,
    TINY_MODEL,
    Process,
    Stack,
    StackError,
)

TINY_FLAGS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
# Slow enough to watch.
REPLAY_PACE = ("--tokens-per-second", "40")
TOKENIZER = ("--tokenizer-backend", "huggingface")  # unless the arguments name another
TRY_NEXT = """
Listening on {url} . Try next:

  curl -N {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{{
    "model": "{model}", "stream": true,
    "messages": [{{"role": "user", "content": "What is 17 + 25?"}}]}}'

  {python} examples/stream.py --url {url}/v1 --model {model}

Logs: {logs}
Ctrl-C ends it.
"""


def main() -> None:
    """Run the stack until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("replay", "vllm", "transformers"), default="replay")
    parser.add_argument("--port", type=parse_port, default=8000, help="default: 8000")
    parser.add_argument(
        "--model", default="", help="path or name, for a real engine; default: the example model"
    )
    parser.add_argument("arguments", nargs="*", help="more flags for the worker")
    options = parser.parse_args()
    if options.engine == "replay" and options.model:
        sys.exit(
            "run: the replay worker answers from the example model's transcripts only; "
            "to serve a model, add ENGINE=vllm or ENGINE=transformers"
        )
    try:
        with (
            tempfile.TemporaryDirectory(prefix="backedge-") as folder,
            Stack(Path(folder)) as stack,
        ):
            serve(stack, options)
    except StackError as error:
        sys.exit(f"run: {error}")
    except KeyboardInterrupt:
        print("\nrun: stopped")


def parse_port(text: str) -> int:
    """Parse a port. Raises ArgumentTypeError."""
    if text.isascii() and text.isdecimal() and 0 < int(text[:MAX_DIGITS]) <= MAX_PORT:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port; PORT must be 1 to 65535")


def serve(stack: Stack, options: argparse.Namespace) -> None:
    """Start both processes, show two answers, and wait."""
    started = time.monotonic()
    if options.engine == "replay":
        print(
            "run: starting a frontend and a worker that replays the example transcripts "
            "(ENGINE=vllm: a real engine)"
        )
        name = MODEL_NAME
        stack.replay(*TINY_FLAGS, *REPLAY_PACE, *TOKENIZER, *options.arguments, wait=False)
    else:
        name = Path(options.model).name if options.model else MODEL_NAME
        start = start_vllm if options.engine == "vllm" else start_transformers
        start(stack, options.model, name, options.arguments)
    flags = allow_tokenizer(options.arguments)
    frontend = stack.frontend(*flags, port=options.port, wait=False)
    frontend.wait_for(frontend.answers)
    print(f"run: the frontend listens after {time.monotonic() - started:.0f} s", flush=True)
    stack.wait_for_model(frontend, name)
    print(f"run: the worker is ready after {time.monotonic() - started:.0f} s", flush=True)
    demonstrate(frontend, name)
    print(
        TRY_NEXT.format(
            url=frontend.url, model=name, python=os.path.relpath(sys.executable), logs=stack.folder
        ),
        flush=True,
    )
    while True:
        for process in stack.processes:
            process.check()
        time.sleep(1)


def allow_tokenizer(arguments: list[str]) -> tuple[str, ...]:
    """Return the flags with which the frontend imports the worker's own tokenizer."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--tokenizer-module")
    module = parser.parse_known_args(arguments)[0].tokenizer_module
    return ("--allow-tokenizer-module", module) if module else ()


def start_vllm(stack: Stack, model: str, name: str, arguments: list[str]) -> None:
    """Start a vLLM worker with `model`; default: the example model."""
    on_cpu = "cpu" in importlib.metadata.version("vllm")
    print(
        f"run: starting a frontend and vLLM{' on the CPU' if on_cpu else ''} "
        f"with {model or 'the example model'}"
    )
    stack.worker(
        "--vllm-processing",
        *(() if model else TINY_FLAGS),
        *arguments,
        model=model or TINY_MODEL,
        name=name,
        engine=CPU_ENGINE if on_cpu else (),
        wait=False,
    )


def start_transformers(stack: Stack, model: str, name: str, arguments: list[str]) -> None:
    """Start a worker around transformers with `model`; default: the example model."""
    print(f"run: starting a frontend and transformers with {model or 'the example model'}")
    flags = (*(() if model else TINY_FLAGS), *TOKENIZER, *arguments)
    stack.transformers(*flags, model=model or TINY_MODEL, name=name, wait=False)


def demonstrate(frontend: Process, name: str) -> None:
    """Stream the two example answers to the terminal."""
    script = str(ROOT / "examples" / "stream.py")
    command = [sys.executable, script, "--url", frontend.url + "/v1", "--model", name]
    if subprocess.run(command, check=False).returncode != 0:
        print("\nrun: not all example questions were answered", flush=True)


if __name__ == "__main__":
    main()
