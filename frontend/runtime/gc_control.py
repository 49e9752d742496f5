"""Keeps Python's garbage collector away from objects that are imported once and stay.

An engine's modules are 700,000 objects. Looking through them takes 600 ms, in which no stream
goes on, and during their import the collector does it again and again.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

# Long enough for everybody else to have dropped the model, too.
COLLECT_AFTER_S = 1.0

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


def collect_after(model: object) -> None:
    """Collect garbage when `model` is gone. To be called in the event loop.

    The engines' objects, among them tokenizers, are parts of reference cycles; without this
    they would stay until much more garbage has piled up.
    """
    loop = asyncio.get_running_loop()

    def collect_soon() -> None:
        loop.call_soon_threadsafe(lambda: loop.call_later(COLLECT_AFTER_S, gc.collect))

    weakref.finalize(model, collect_soon).atexit = False
