"""`make run`: a real frontend and worker, two answers streamed, then up until Ctrl-C."""

from __future__ import annotations

import argparse
import importlib.metadata
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from tools.stack import CPU_ENGINE, MODEL_NAME, ROOT, TINY_MODEL, Process, Stack, StackError

TINY_FLAGS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
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
    """Run the stack; see the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--model", default="", help="path or name; the example model if empty")
    parser.add_argument("arguments", nargs="*", help="more flags for the worker")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="backedge-") as folder, Stack(Path(folder)) as stack:
            serve(stack, options.port, options.model, options.arguments)
    except StackError as error:
        sys.exit(f"run: {error}")
    except KeyboardInterrupt:
        print("\nrun: stopped")


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """End as Ctrl-C does."""
    raise KeyboardInterrupt


def serve(stack: Stack, port: int, model: str, arguments: list[str]) -> None:
    """Start both processes, show two answers, and wait."""
    on_cpu = "cpu" in importlib.metadata.version("vllm")
    name = Path(model).name if model else MODEL_NAME
    print(f"run: starting vLLM {'on the CPU' if on_cpu else ''} with {model or 'the example model'}, and a frontend")
    started = time.monotonic()
    stack.worker(
        "--vllm-processing",
        *(() if model else TINY_FLAGS),
        *arguments,
        model=model or TINY_MODEL,
        name=name,
        engine=CPU_ENGINE if on_cpu else (),
        wait=False,
    )
    frontend = stack.frontend(port=port, wait=False)
    frontend.wait_for(frontend.answers)
    print(f"run: the frontend listens after {time.monotonic() - started:.0f} s", flush=True)
    stack.wait_for_model(frontend, name)
    print(f"run: the worker is ready after {time.monotonic() - started:.0f} s", flush=True)
    demonstrate(frontend, name)
    print(TRY_NEXT.format(url=frontend.url, model=name, python=".venv/bin/python", logs=stack.folder))
    while True:
        for process in stack.processes:
            process.check()
        time.sleep(1)


def demonstrate(frontend: Process, name: str) -> None:
    """Stream the two example answers to the terminal."""
    script = str(ROOT / "examples" / "stream.py")
    subprocess.run([sys.executable, script, "--url", frontend.url + "/v1", "--model", name], check=True)


if __name__ == "__main__":
    main()
