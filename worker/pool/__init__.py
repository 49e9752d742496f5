"""PostprocessedChunk-processing in processes of its own, for parsers that may take long.

    main process                          template              process 1, 2, ...
    core.PoolSupervisor     ── control socket ──>   template.py ─ fork ─> process.py
         └──────────── ZMQ on a private IPC socket ─────────────────┘

The template imports and builds everything once; a process is forked from it, so a
new one is there in milliseconds. See ARCHITECTURE section 6 for what it is for.
"""

from .supervisor import (
    CORES_PER_PROCESS,
    MAX_AUTO_PROCESSES,
    PoolSettings,
    PoolSupervisor,
    auto_processes,
)

__all__ = [
    "CORES_PER_PROCESS",
    "MAX_AUTO_PROCESSES",
    "PoolSettings",
    "PoolSupervisor",
    "auto_processes",
]
