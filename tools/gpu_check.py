"""`tools/gpu_check`: runs the e2e tests on a GPU for each installed engine; prints a table.

    tools/gpu_check                  # all installed engines
    tools/gpu_check trtllm vllm      # some of them

Elsewhere the tests run vLLM and SGLang on the CPU, and instead of TensorRT-LLM a stand-in that
replays recorded outputs (tests/standin). Here the engines are the real ones.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.stack import DEVICE_VARIABLE, ROOT

SGLANG_TESTS = ("test_sglang",)
TRTLLM_TESTS = ("test_trtllm", "test_trtllm_disaggregated")
# The other tests run vLLM, or no engine.
VLLM_TESTS = tuple(
    path.stem
    for path in sorted((ROOT / "tests" / "e2e").glob("test_*.py"))
    if path.stem not in (*SGLANG_TESTS, *TRTLLM_TESTS)
)
# The distribution of each engine, and the modules of tests/e2e that run it.
ENGINES: dict[str, tuple[str, tuple[str, ...]]] = {
    "vllm": ("vllm", VLLM_TESTS),
    "sglang": ("sglang", SGLANG_TESTS),
    "trtllm": ("tensorrt-llm", TRTLLM_TESTS),
}
HEAD = "| engine | version | passed | failed | skipped | minutes |"
S_PER_MINUTE = 60


class Outcome(NamedTuple):
    """The test results of one engine."""

    passed: int
    failed: int
    skipped: int
    seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tests and print the table; exit with 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("engines", nargs="*", choices=[[], *ENGINES], help="default: all installed")
    chosen = parser.parse_args(arguments).engines or list(ENGINES)
    gpu = find_gpu()
    if gpu is None:
        sys.exit("gpu_check: nvidia-smi shows no GPU; use `make test` for the tests without one.")
    print(f"{gpu}; ai-dynamo {read_version('ai-dynamo')}; Python {sys.version.split()[0]}\n")
    print(HEAD, "|---|---|---|---|---|---|", sep="\n")
    failed = False
    for engine in chosen:
        distribution, modules = ENGINES[engine]
        version = read_version(distribution)
        outcome = None if version is None else run(modules)
        failed |= outcome is not None and outcome.failed > 0
        print(describe(engine, version, outcome), flush=True)
    sys.exit(failed)


def find_gpu() -> str | None:
    """Return nvidia-smi's description of GPUs and driver; None without a GPU."""
    command = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    try:
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return "; ".join(shown.split("\n")).strip("; ") or None


def read_version(distribution: str) -> str | None:
    """Return the installed version; None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def run(modules: Sequence[str]) -> Outcome:
    """Run modules of tests/e2e on the GPU; pytest's own output goes to stderr."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-n", "0", f"--junitxml={report}"),
                *(f"tests/e2e/{module}.py" for module in modules),
            ],
            cwd=ROOT,
            env={**os.environ, DEVICE_VARIABLE: "gpu", "CI": "1"},
            stdout=sys.stderr,
            check=False,
        )
        return read_report(report.read_text(encoding="utf-8"))


def read_report(xml: str) -> Outcome:
    """Return the sums of a report in JUnit's form."""
    suites = list(ET.fromstring(xml).iter("testsuite"))  # noqa: S314 - as above

    def total(name: str) -> float:
        return sum(float(suite.get(name, 0)) for suite in suites)

    failed, skipped = int(total("failures") + total("errors")), int(total("skipped"))
    return Outcome(int(total("tests")) - failed - skipped, failed, skipped, total("time"))


def describe(engine: str, version: str | None, outcome: Outcome | None) -> str:
    """Return a row of the table. version: None if the engine is not installed."""
    if version is None or outcome is None:
        return f"| {engine} | not installed | | | | |"
    minutes = outcome.seconds / S_PER_MINUTE
    return (
        f"| {engine} | {version} | {outcome.passed} | {outcome.failed} | {outcome.skipped} "
        f"| {minutes:.1f} |"
    )


if __name__ == "__main__":
    main()
