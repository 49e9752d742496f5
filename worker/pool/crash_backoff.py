"""The waits between the restarts of processes that die."""

from __future__ import annotations

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
