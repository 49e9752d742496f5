"""CPU time of other processes."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

# clockid_t of a process's CPU clock: MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of
# linux/posix-timers.h. Like utime + stime of /proc/<pid>/stat it counts all threads,
# ended ones included, but in nanoseconds: a tick of /proc is 10 ms, which is the whole
# cost of a short round.
CPUCLOCK_SCHED = 2
# Fields of /proc/<pid>/stat after the command: state, then the parent's id.
PARENT_FIELD = 1


class CpuTime(msgspec.Struct, frozen=True):
    """Seconds of CPU time of a process, and of all its live descendants."""

    own_s: float
    children_s: float

    @property
    def total_s(self) -> float:
        """Both together."""
        return self.own_s + self.children_s

    def per_second(self, elapsed_s: float) -> CpuTime:
        """Return the mean use per second."""
        return CpuTime(self.own_s / elapsed_s, self.children_s / elapsed_s)

    def less_idle(self, idle: CpuTime, elapsed_s: float) -> CpuTime:
        """Return this time minus idle use. idle: per second."""
        return CpuTime(
            self.own_s - idle.own_s * elapsed_s, self.children_s - idle.children_s * elapsed_s
        )

    def since(self, earlier: CpuTime) -> CpuTime:
        """Return the use between the two readings."""
        return CpuTime(self.own_s - earlier.own_s, self.children_s - earlier.children_s)


def cpu_time(pid: int) -> CpuTime:
    """Return the CPU time of process `pid` so far. Raises OSError if it has ended."""
    return CpuTime(_own(pid), sum(_own(child) for child in _descendants(pid)))


def _own(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def _descendants(pid: int) -> set[int]:
    parents = {
        int(stat.parent.name): parent
        for stat in Path("/proc").glob("[0-9]*/stat")
        if (parent := _parent(stat))
    }
    found: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        found |= level
    return found


def _parent(stat: Path) -> int | None:
    """Return the parent's id; None if the process has ended."""
    try:
        after_command = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(after_command[PARENT_FIELD])
