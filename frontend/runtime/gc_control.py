"""Python's garbage collector, kept away from what is imported once and stays.

An engine's modules are 700,000 objects. To look through them takes 600 ms, in which no
stream goes on, and while they are imported the collector does it again and again.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

# By then everybody else has let go, too.
COLLECT_AFTER_S = 1.0

# Libraries of C++ count at the end who has not been collected, and complain.
atexit.register(gc.unfreeze)


def pause() -> None:
    """Collect nothing until `resume`."""
    gc.disable()


def resume() -> None:
    """Collect again, but nothing that is there now."""
    gc.freeze()
    gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """Import something large."""
    pause()
    try:
        yield
    finally:
        resume()


def collect_after(model: object) -> None:
    """Have the garbage collected when `model` is gone.

    Objects of the engines refer to each other, tokenizers among them, and would stay
    until there is much more of that kind. To be called in the event loop.
    """
    loop = asyncio.get_running_loop()

    def collect_soon() -> None:
        loop.call_soon_threadsafe(lambda: loop.call_later(COLLECT_AFTER_S, gc.collect))

    weakref.finalize(model, collect_soon).atexit = False
