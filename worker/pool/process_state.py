"""Looks at another process of this user: whether something has stopped it, and its CPU time."""

from __future__ import annotations

from pathlib import Path

# The states of a stopped process in /proc.
STOPPED = ("T", "t")
# A profiler stops a process for moments, so this many looks in a row must find it stopped: fewer
# than before a deadline, which would cost a request its parsers.
STOPPED_CHECKS = 5


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped a process; False if it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return status.rpartition(") ")[2].startswith(STOPPED)


def cpu_clock(pid: int) -> int:
    """Return Linux's id of the clock of a process's CPU time, for `time.clock_gettime`.

    Source: clock_getcpuclockid(3).
    """
    return ~pid << 3 | 2
