"""Ties an engine's processes to the one that started them: each notices the other's end.

vLLM's would remain and keep the GPU's memory, so a restarted command would find none. SGLang's end
by themselves. The other way round vLLM waits for ever, and SGLang kills its caller.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Environment variable that tells the engine's processes who started the engine.
VARIABLE = "BACKEDGE_ENGINE_STARTED_BY"
# How long they may remain, in seconds.
INTERVAL_S = 1.0


def adopt_engine() -> None:
    """Make engine processes that are started from now on end with this process."""
    os.environ[VARIABLE] = str(os.getpid())


def start_engine(start: Callable[[], T], died: Callable[[T], object]) -> T:
    """Return the engine that `start` starts.

    died: called with the engine in a thread when one of its processes ends.
    """
    before = multiprocessing.active_children()
    engine = start()
    ends = [child.sentinel for child in multiprocessing.active_children() if child not in before]

    def wait() -> None:
        multiprocessing.connection.wait(ends)
        died(engine)

    if ends:
        threading.Thread(target=wait, name="engine", daemon=True).start()
    return engine


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
