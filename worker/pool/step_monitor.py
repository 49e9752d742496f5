"""Shared memory that tells the main process which step a pool process is working on.

A process whose parser loops can answer nothing; its memory can still be read.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import NamedTuple


class Step(NamedTuple):
    """One step of a request.

    since: when it began, in seconds of the monotonic clock. chunks: how many of the
    request's chunks were processed before it.
    """

    since: float
    key: int
    chunks: int


class StepMonitor:
    """The current step of one process; written by that process, read by the supervisor.

    path: of the file that both map.
    """

    LAYOUT = struct.Struct("=dqq")

    def __init__(self, path: Path) -> None:
        with path.open("a+b") as file:
            file.truncate(self.LAYOUT.size)
            self._memory = mmap.mmap(file.fileno(), self.LAYOUT.size)

    def begin(self, key: int, chunks: int) -> None:
        """Write that a step of request `key` begins now, after `chunks` of its chunks."""
        self.LAYOUT.pack_into(self._memory, 0, time.monotonic(), key, chunks)

    def end(self) -> None:
        """Write that no step is in progress."""
        self.LAYOUT.pack_into(self._memory, 0, 0.0, 0, 0)

    def read(self) -> Step | None:
        """Return the step in progress, or None."""
        step = Step(*self.LAYOUT.unpack_from(self._memory))
        return step if step.since else None

    def close(self) -> None:
        """Unmap the memory."""
        self._memory.close()


def monitor_path(folder: str | Path, number: int) -> Path:
    """Return the path of the monitor of process `number`."""
    return Path(folder) / f"{number}.step"
