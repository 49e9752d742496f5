"""Shared memory that shows the main process which step a pool process is working on.

A process whose parser loops cannot answer, but its memory can be read.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import NamedTuple

# A value read during a write may be torn; two equal reads in succession are not. No writer is
# so fast that more reads are needed.
MAX_READINGS = 8


class Step(NamedTuple):
    """One step of a request.

    since: when it began, in seconds of the monotonic clock. chunks: number of the request's
    chunks processed before it.
    """

    since: float
    key: int
    chunks: int


class StepMonitor:
    """The current step of one process: the process writes it, the supervisor reads it.

    path: of the file that both map.
    """

    STEP = struct.Struct("=dqq")

    def __init__(self, path: Path) -> None:
        with path.open("a+b") as file:
            file.truncate(self.STEP.size)
            self._memory = mmap.mmap(file.fileno(), self.STEP.size)

    def begin(self, key: int, chunks: int) -> None:
        """Record that a step of request `key` begins now, after `chunks` of its chunks."""
        self.STEP.pack_into(self._memory, 0, time.monotonic(), key, chunks)

    def end(self) -> None:
        """Record that no step is in progress."""
        self.STEP.pack_into(self._memory, 0, 0.0, 0, 0)

    def read(self) -> Step | None:
        """Return the step in progress, or None."""
        found = self.STEP.unpack_from(self._memory)
        for _ in range(MAX_READINGS):
            again = self.STEP.unpack_from(self._memory)
            if again == found:
                break
            found = again
        step = Step(*found)
        return step if step.since else None

    def close(self) -> None:
        """Unmap the memory."""
        self._memory.close()


def monitor_path(folder: str | Path, number: int) -> Path:
    """Return the path of the monitor of process `number`."""
    return Path(folder) / f"{number}.step"
