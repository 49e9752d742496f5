"""Keeps Python's garbage collector away from objects that are imported once and stay.

An engine's modules are 700,000 objects. Looking through them takes 600 ms, in which no stream
goes on, and during their import the collector does it again and again.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# C++ libraries check at exit that their objects were collected, and complain about frozen ones.
atexit.register(gc.unfreeze)


def pause() -> None:
    """Stop collecting until `resume`."""
    gc.disable()


def resume() -> None:
    """Collect again, except for the objects that exist now."""
    gc.freeze()
    gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """Pause while something large is imported."""
    pause()
    try:
        yield
    finally:
        resume()
