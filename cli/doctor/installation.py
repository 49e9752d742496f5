"""What is installed on this machine, and what it has of what the processes need."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator

from ...base.engines import load_engine_module
from ...base.errors import SetupError
from ...worker.engine_support import EngineSupport, read_version
from ...worker.flags import EngineName
from ...worker.pool import auto_processes
from .findings import Finding

# Distributions that workers, frontends and batches use.
PACKAGES = (
    *("ai-dynamo", "vllm", "sglang", "tensorrt-llm"),
    *("transformers", "xgrammar", "mistral-common", "ray"),
)
# A process holds one for each connection, and the default of many systems is 1,024.
FEW_FILES = 4096


def check_installation() -> Iterator[Finding]:
    """Yield the versions of what is installed, and the limits of this machine."""
    versions = {package: read_version(package) for package in PACKAGES}
    present = ", ".join(f"{name} {found}" for name, found in versions.items() if found != "none")
    own = f"backedge {read_version('backedge')}, Python {platform.python_version()}"
    yield Finding("ok", "installed", f"{own}, {present or 'no engine and no Dynamo'}")
    if versions["ai-dynamo"] == "none":
        yield Finding(
            "note",
            "Dynamo",
            "ai-dynamo is not installed: no worker or frontend starts here",
            "pip install ai-dynamo",
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
        machine + (": each stream of a frontend takes a file" if is_few else ""),
        "ulimit -n 65536" if is_few else "",
    )


def check_engine(engine: EngineName) -> Iterator[Finding]:
    """Yield whether Dynamo and the engine are as the adapter of the worker needs them.

    Imports both, which takes seconds.
    """
    support = _find_support(engine)
    if support is None or read_version(support.distribution) == "none":
        yield Finding(
            "note",
            "seams",
            f"{engine} is not installed here, so what Backedge needs of it was not checked",
            "run doctor where the worker runs",
        )
        return
    try:
        support.check_versions()
        support.check_patch_points()
    except SetupError as error:
        yield Finding("error", "seams", str(error))
    except ImportError as error:
        yield Finding("error", "seams", f"a module that Backedge patches is missing: {error}")
    else:
        found = f"ai-dynamo {read_version('ai-dynamo')} with {engine} "
        yield Finding("ok", "seams", f"{found}{read_version(support.distribution)} fit")


def _find_support(engine: EngineName) -> EngineSupport | None:
    """Return what the adapter of the engine relies on; None if it cannot be imported here."""
    try:
        adapter = load_engine_module(engine, "worker")
    except ImportError:
        return None
    support: EngineSupport = adapter.ENGINE
    return support
