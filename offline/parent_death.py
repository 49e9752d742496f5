"""Ends an engine's processes when the process that started them ends, even if it is killed.

vLLM's would remain and keep the GPU's memory, so a restarted command would find none. SGLang's end
by themselves.
"""

from __future__ import annotations

import os
import signal
import threading
import time

# Environment variable that tells the engine's processes who started the engine.
VARIABLE = "BACKEDGE_ENGINE_STARTED_BY"
# How long they may remain, in seconds.
INTERVAL_S = 1.0


def adopt_engine() -> None:
    """Make engine processes that are started from now on end with this process."""
    os.environ[VARIABLE] = str(os.getpid())


def end_with_parent() -> None:
    """End this process soon after its parent, if it belongs to an engine; otherwise do nothing.

    vLLM calls this in each of its processes, as a plugin.
    """
    if os.environ.get(VARIABLE) not in {None, str(os.getpid())}:
        parent = os.getppid()
        threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(INTERVAL_S)
    os.kill(os.getpid(), signal.SIGKILL)
