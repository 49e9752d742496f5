"""Excludes the objects that an engine has loaded from garbage collection."""

from __future__ import annotations

import atexit
import functools
import gc


@functools.cache
def freeze_loaded() -> None:
    """Collect garbage once, then exclude all remaining objects from collection; only once.

    An engine's modules are some 700,000 objects. A full collection would visit all of them for
    hundreds of milliseconds, during which every stream stops.
    """
    gc.collect()
    gc.freeze()
    # C++ libraries check at exit that their objects were collected; frozen ones cause warnings.
    atexit.register(gc.unfreeze)
