"""Bounds a call that has no timeout of its own, such as the resolution of a name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class CallTimeoutError(TimeoutError):
    """The call has not ended in time."""


def call_within(seconds: float, function: Callable[[], T]) -> T:
    """Return what the function returns, or raise what it raises, in a thread of its own.

    Raises `CallTimeoutError` after `seconds`; the thread then ends with the function.
    """
    found: SimpleQueue[tuple[T] | Exception] = SimpleQueue()

    def run() -> None:
        try:
            found.put((function(),))
        except Exception as error:  # noqa: BLE001 - raised by the caller
            found.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        result = found.get(timeout=max(seconds, 0.0))
    except Empty:
        raise CallTimeoutError(f"no answer within {seconds:.3g} s") from None
    if isinstance(result, Exception):
        raise result
    return result[0]
