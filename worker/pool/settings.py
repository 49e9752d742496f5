"""The pool's settings, the number of processes for a machine, and the waits after crashes."""

from __future__ import annotations

import os

import msgspec

from ...base.json_types import JsonObject
from ...base.limits import PROCESS_MEMORY_MB
from ...postprocess.chunk_scheduler import MergeDelays
from ...postprocess.fallback import OnError

CORES_PER_PROCESS = 8
MAX_AUTO_PROCESSES = 4


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The pool's settings.

    build: "module:function" that returns the detokenizer and parser factories; the fork server
        calls it with `arguments`.
    deadline_s: limit for one step, that is, one token.
    memory_mb: limit of the memory of each process in MiB; 0 for no limit.
    """

    processes: int
    build: str
    arguments: JsonObject
    parsers_name: str
    delays: MergeDelays
    on_error: OnError = "degrade"
    deadline_s: float = 2.0
    memory_mb: int = PROCESS_MEMORY_MB


def auto_processes() -> int:
    """Return one process per `CORES_PER_PROCESS` cores, at most `MAX_AUTO_PROCESSES`."""
    return min(MAX_AUTO_PROCESSES, len(os.sched_getaffinity(0)) // CORES_PER_PROCESS)


FIRST_DELAY_S = 0.1
# After this long without a death the count starts again.
QUIET_S = 60.0


class CrashBackoff:
    """Increases the wait with each death in succession.

    free: number of deaths that cost no wait. longest_s: the longest wait, less than `QUIET_S`.
    """

    def __init__(self, free: int, longest_s: float) -> None:
        self._free = free
        self._longest_s = longest_s
        self._deaths = 0
        self._last = 0.0

    def count(self, now: float) -> float:
        """Count a death at `now`, in seconds of any clock; return how long to wait."""
        self._deaths = self._deaths + 1 if now - self._last <= QUIET_S else 1
        self._last = now
        if self._deaths <= self._free:
            return 0.0
        # Bounded because 2.0 ** 1024 raises.
        doublings = min(self._deaths - self._free - 1, 64)
        return min(self._longest_s, FIRST_DELAY_S * 2.0**doublings)
