"""Checks what is installed on this machine, and the machine's limits."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator
from itertools import chain

from ...base.engines import has_engine, load_engine_module
from ...base.errors import SetupError
from ...base.seams import Seam, Use, find_fault, read_version
from ...engines.dynamo import seams as dynamo
from ...parsers.api import Engine
from ...worker.pool import auto_processes
from .findings import Finding

# Distributions used by workers, frontends and offline runs.
PACKAGES = tuple(
    "ai-dynamo vllm sglang tensorrt-llm transformers xgrammar mistral-common ray".split()
)
# A process needs one per connection; the default of many systems is 1,024.
FEW_FILES = 4096


def check_installation(*, needs_dynamo: bool = True) -> Iterator[Finding]:
    """Report installed versions and this machine's limits.

    needs_dynamo: False for an engine's own server.
    """
    versions = {package: read_version(package) for package in PACKAGES}
    present = ", ".join(f"{name} {found}" for name, found in versions.items() if found != "none")
    own = f"backedge {read_version('backedge')}, Python {platform.python_version()}"
    yield Finding("ok", "installed", f"{own}, {present or 'no engine and no Dynamo'}")
    if needs_dynamo and versions["ai-dynamo"] == "none":
        yield Finding(
            "note",
            "Dynamo",
            "ai-dynamo is not installed: workers and frontends cannot start here",
            "pip install ai-dynamo; if that fails at aisimulate, which nothing here needs: "
            "pip install --no-deps ai-dynamo ai-dynamo-runtime",
        )
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = (
        f"{cores} cores, {files:,} open files, {auto_processes()} processes for native parsers"
    )
    is_few = 0 <= files < FEW_FILES
    yield Finding(
        "note" if is_few else "ok",
        "machine",
        machine + (": a frontend needs a file per stream" if is_few else ""),
        "ulimit -n 65536" if is_few else "",
    )


def check_engine(engine: Engine, *, lists: bool = False) -> Iterator[Finding]:
    """Yield whether Dynamo and the engine have the seams that Backedge relies on.

    lists: also yield each one that holds. Imports both, which takes seconds.
    """
    table = load_engine_module(engine, "seams") if has_engine(engine) else None
    if table is None or read_version(table.PACKAGES[-1]) == "none":
        yield Finding(
            "note",
            "seams",
            f"{engine} is not installed here, so Backedge's seams in it were not checked",
            "run doctor where the worker runs",
        )
        return
    try:
        load_engine_module(engine, "worker").ENGINE.check_versions()
    except SetupError as error:
        yield Finding("error", "versions", str(error))
    else:
        version = read_version(table.PACKAGES[-1])
        found = f"ai-dynamo {read_version('ai-dynamo')} with {engine} {version}"
        yield Finding("ok", "versions", f"{found} fit")
    seams = chain(*dynamo.SEAMS.values(), *table.SEAMS.values())
    judged = [_judge(seam, use) for seam in seams for use in seam.uses]
    faults = [finding for finding in judged if finding.severity != "ok"]
    yield from judged if lists else faults
    if len(faults) < len(judged):
        count = f"{len(judged) - len(faults)} of {len(judged)}"
        yield Finding("ok", "seams", f"{count} places in Dynamo and {engine} are as needed")


def _judge(seam: Seam, use: Use) -> Finding:
    fault = find_fault(use)
    if fault is None:
        return Finding("ok", "seam", f"{use.name} holds: {use.how_checked}")
    if seam.feature:
        return Finding("warning", "seam", f"{seam.feature} is off: {fault}")
    return Finding(
        "error",
        "seam",
        f"{use.name} does not hold: {fault}, without which {seam.without}",
        "install versions that docs/compatibility.md lists",
    )
