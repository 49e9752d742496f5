"""An engine's processes end with the process that started them, also if that one is killed.

vLLM's would stay and keep the memory of the GPU, so that the command, started again, finds none.
SGLang's end by themselves.
"""

from __future__ import annotations

import os
import signal
import threading
import time

# Names the process that started the engine, for the engine's own processes.
VARIABLE = "BACKEDGE_ENGINE_STARTED_BY"
# How long they may stay, in seconds.
INTERVAL_S = 1.0


def adopt_engine() -> None:
    """Let the engine's processes that are started from now on end with this process."""
    os.environ[VARIABLE] = str(os.getpid())


def end_with_parent() -> None:
    """Let this process end soon after its parent, if it is one of an engine; else do nothing.

    vLLM calls it in each of its processes, as a plugin.
    """
    if os.environ.get(VARIABLE) not in {None, str(os.getpid())}:
        parent = os.getppid()
        threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(INTERVAL_S)
    os.kill(os.getpid(), signal.SIGKILL)
