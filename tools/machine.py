"""Programs and libraries that some tests need beside Python's packages: where, and for what.

    python -m tools.machine

prints one sentence, if anything is missing.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
# The system's programs come first, then those that tools/setup has unpacked or pip has installed.
PATH = os.pathsep.join(
    [
        os.environ.get("PATH", os.defpath),
        str(ROOT / ".venv" / "bin"),
        str(Path(sys.prefix) / "bin"),
    ]
)


class Part(NamedTuple):
    """find: returns where the part is, or None. users: what needs it."""

    find: Callable[[], str | None]
    users: str


def find_program(*names: str) -> str | None:
    """Return the path of the first program that is there."""
    return next(filter(None, (shutil.which(name, path=PATH) for name in names)), None)


def find_library(name: str) -> str | None:
    """Return a shared library: one of the system, or one that tools/setup has unpacked."""
    try:
        ctypes.CDLL(name)
    except OSError:
        files = (Path(folder, name) for folder in sys.path)
        return next((str(file) for file in files if file.is_file()), None)
    return name


def find_lscpu() -> str | None:
    """Return the path of `lscpu` where it can tell the processors, for which it reads /sys."""
    if (path := find_program("lscpu")) is None:
        return None
    command = [path, "--json", "--extended=CPU,CORE,NODE", "--online"]
    return (
        path if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None
    )


def program(*names: str, users: str) -> Part:
    """Return a program under any of its names."""
    return Part(partial(find_program, *names), users)


PARTS = {
    "bash": program("bash", users="completion of the command, and pages in a browser"),
    "chromium": program(
        "chromium", "chromium-browser", "google-chrome", users="pages in a browser"
    ),
    "etcd": program("etcd", users="discovery in etcd"),
    "git": program("git", users="the files of the repository"),
    "hadolint": program("hadolint", users="the Dockerfile"),
    "kubectl": program("kubectl", users="the manifests"),
    "nats-server": program("nats-server", users="discovery in etcd"),
    "node": program("node", users="the Vercel AI SDK"),
    "pgrep": program("pgrep", users="engines that are killed"),
    "prometheus": program("prometheus", users="the dashboard's queries"),
    "promtool": program("promtool", users="the alerts"),
    "redis-server": program("redis-server", users="the store of turns"),
    "lscpu": Part(find_lscpu, "vLLM's engine on a CPU"),
    "libnuma": Part(partial(find_library, "libnuma.so.1"), "vLLM's engine on a CPU"),
}


def find(name: str) -> str | None:
    """Return where a part of the machine is; None if it is missing."""
    return PARTS[name].find()


def explain_missing(names: Iterable[str] | None = None) -> str:
    """Return which of the parts, or of all, are missing, and for what; "" if all are there."""
    missing = [name for name in (names or PARTS) if find(name) is None]
    return ", ".join(f"{name} (for {PARTS[name].users})" for name in missing)


def describe_machine() -> str:
    """Return one sentence about what is missing; "" if nothing is."""
    missing = explain_missing()
    return f"Not on this machine: {missing}. Tests that need these are skipped." * bool(missing)


if __name__ == "__main__":
    print(describe_machine(), end="\n" * bool(explain_missing()))
