"""Limits the memory of a process that runs code which is not ours."""

from __future__ import annotations

import resource
from pathlib import Path

PAGES = Path("/proc/self/statm")


def limit_memory(megabytes: int) -> None:
    """Let this process map at most `megabytes` in addition to its current memory; 0: no limit.

    Beyond the limit Python raises MemoryError, which fails the code that asked for memory; a
    library that cannot continue ends the process.
    """
    if not megabytes:
        return
    mapped = int(PAGES.read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = mapped + (megabytes << 20)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
