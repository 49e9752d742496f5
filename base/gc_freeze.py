"""Excludes permanently loaded objects from Python's garbage collection.

An engine's modules are 700,000 objects. A full collection visits all of them for hundreds of
milliseconds, during which every stream stops, and their import starts several.
"""

from __future__ import annotations

import atexit
import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# C++ libraries check at exit that their objects were collected; frozen ones cause warnings.
atexit.register(gc.unfreeze)


@functools.cache
def freeze_loaded() -> None:
    """Collect garbage once, then exclude all remaining objects from collection; only once."""
    gc.collect()
    gc.freeze()


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
