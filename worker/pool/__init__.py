"""Post-processing in separate processes, for parsers that may take long.

    main process                      fork server               process 1, 2, ...
    PoolSupervisor ── control socket ──> fork_server_main ─ fork ─> PoolProcess
         └──────────── ZMQ on a private IPC socket ─────────────────┘

The fork server imports and builds everything once, then forks the processes, so a new one
serves within milliseconds. If the fork server ends, it is restarted; the processes it
forked keep running.

A request stays in one process. `PooledStream`, its side in the main process, splits the
engine's output into steps of one token and keeps all of them. A process takes one step of
each of its requests in turn and answers with results, progress and failures. All messages
of one turn of an event loop are sent as one.

Before each step a process writes to shared memory (`StepMonitor`) which request it works
on. The supervisor reads this several times per deadline:

- A step takes long: the requests that wait for it move, and the process keeps its own alone.
- A step exceeds the deadline of CPU time, or eight times as long on the clock, since on a busy
  machine it may wait for its turn: the process is killed. The request that caused it continues
  without its parsers or fails, as --postprocess-on-error says.
- A process dies: all its requests move. A request in whose steps `MAX_DEATHS` processes died
  is treated like one beyond the deadline; so is one that as many were serving when they died
  outside of any step. If that does not help, the request fails.
- A process is stopped by a signal, or does not serve after the fork: it is killed and counts
  as dead. The fork server has deadlines as well.
- A parser needs more memory than a process may have: it gets a MemoryError.
- Processes die one after another: the next ones start after increasing waits.

To move a request, all its steps are sent again to another process, which drops the results
that the client already has. When the main process ends, for any reason, the kernel ends
the fork server and all processes.
"""

from .settings import CORES_PER_PROCESS, MAX_AUTO_PROCESSES, PoolSettings, auto_processes
from .supervisor import PoolSupervisor

__all__ = [
    "CORES_PER_PROCESS",
    "MAX_AUTO_PROCESSES",
    "PoolSettings",
    "PoolSupervisor",
    "auto_processes",
]
