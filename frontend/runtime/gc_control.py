"""Excludes permanently imported objects from Python's garbage collection.

An engine's modules are 700,000 objects. Visiting all of them takes 600 ms, during which every
stream stops, and the collector does so repeatedly during their import.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# C++ libraries check at exit that their objects were collected; frozen ones cause warnings.
atexit.register(gc.unfreeze)


def pause() -> None:
    """Stop garbage collection until `resume`."""
    gc.disable()


def resume() -> None:
    """Resume collection, except for the objects that exist now."""
    gc.freeze()
    gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """Pause collection while a large module is imported."""
    pause()
    try:
        yield
    finally:
        resume()
