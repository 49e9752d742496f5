"""Post-processing in processes of its own, for parsers that may take long.

    main process                      fork server               process 1, 2, ...
    PoolSupervisor ── control socket ──> fork_server_main ─ fork ─> PoolProcess
         └──────────── ZMQ on a private IPC socket ─────────────────┘

The fork server imports and builds everything once. Processes are forked from it, so a
new one serves within milliseconds. If the fork server ends, it is started again; the
processes it has forked keep running.

A request stays in one process. `PooledStream`, its side in the main process, splits the
engine's output into steps of one token and keeps them all. A process takes a step of each
of its requests in turn and answers with results, progress and failures. All messages of
one turn of an event loop travel as one.

Before each step a process writes to shared memory (`StepMonitor`) which request it works
for. The supervisor reads that several times per deadline:

- A step beyond a quarter of the deadline: the process is quarantined with that request,
  and its other requests move to a new process.
- A step beyond the deadline: the process is killed. The request that caused it goes on
  without its parser, or fails, as --postprocess-on-error says; the others move.
- A process that dies: all its requests move. A request in whose step processes died
  twice is treated like one beyond the deadline, and so is one that three processes had
  in hand when they died outside of any step. If that does not help, it fails.
- A process that gives no sign of life between steps, or does not serve after it was
  forked, is killed and counts as dead. The fork server has deadlines as well.
- A parser that wants more memory than a process may have gets a MemoryError.
- If processes die one after another, the next ones wait, longer each time.

To move a request means to send all its steps again to another process, which drops the
results that the client has got already. When the main process ends, however it ends, the
kernel ends the fork server and all processes.
"""

from .settings import (
    CORES_PER_PROCESS,
    MAX_AUTO_PROCESSES,
    MEMORY_MB,
    PoolSettings,
    auto_processes,
)
from .supervisor import PoolSupervisor

__all__ = [
    "CORES_PER_PROCESS",
    "MAX_AUTO_PROCESSES",
    "MEMORY_MB",
    "PoolSettings",
    "PoolSupervisor",
    "auto_processes",
]
