"""vLLM with its frontend in Rust, whose gRPC server Dynamo's native sidecar asks.

    python -m benchmarks.rust_vllm MODEL --grpc-port PORT [flags of `vllm-rs serve`]

The program `vllm-rs` is in vLLM's wheels for GPUs alone, and runs without one:

    pip download --no-deps vllm==0.31.0
    unzip -j vllm-0.31.0-*.whl vllm/vllm-rs -d .venv/bin && chmod +x .venv/bin/vllm-rs
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

PROGRAM = "vllm-rs"


def find_program() -> str:
    """Return the path of vLLM's program. Raises RuntimeError if it is not here."""
    spec = importlib.util.find_spec("vllm")
    packages = spec.submodule_search_locations if spec is not None else None
    folders = [Path(sys.executable).parent, *map(Path, packages or ())]
    found = shutil.which(PROGRAM, path=os.pathsep.join(map(str, folders)))
    if found is None:
        raise RuntimeError(f"{PROGRAM} is not here; {__name__} says where it is to be had")
    return found


def main() -> None:
    """Become vLLM's program, with an engine that this interpreter runs."""
    program = find_program()
    model, *flags = sys.argv[1:]
    command = (program, "serve", model, "--python", sys.executable, *flags)
    os.execv(program, command)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    main()
