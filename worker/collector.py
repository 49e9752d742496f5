"""Keeps Python's garbage collector away from what an engine has loaded."""

from __future__ import annotations

import atexit
import functools
import gc


@functools.cache
def freeze_loaded() -> None:
    """Collect once, and never look through the objects that are left again; only the first time.

    An engine's modules are some 700,000 objects. A full collection looks through all of them for
    hundreds of milliseconds, in which no stream goes on.
    """
    gc.collect()
    gc.freeze()
    # C++ libraries check at exit that their objects were collected, and complain about frozen ones.
    atexit.register(gc.unfreeze)
