"""A limit on the time of code that nobody trusts to end: a model's chat template.

Python offers no way to stop a thread but to raise an exception in it, which
`PyThreadState_SetAsyncExc` of the C API does at one of its next bytecodes, wherever that
is. So the thread that is watched takes no lock which such an exception could leave held.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


class _Expired(BaseException):
    """Raised in the thread; no `except Exception` of the code stops it."""


class _Limit:
    """One call. The watch writes `claimed`, looks at `ended`, then writes `sent`; the thread the other way round."""

    __slots__ = ("claimed", "ended", "sent", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.ended = False
        self.claimed = False
        self.sent: bool | None = None

    def expire(self) -> None:
        self.claimed = True
        sent = not self.ended
        if sent:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread), ctypes.py_object(_Expired)
            )
        self.sent = sent

    def end(self) -> None:
        """Lift the limit; raises `_Expired` if that is on its way, so that it arrives nowhere else."""
        self.ended = True
        while self.claimed and self.sent is not False:
            time.sleep(0)


class _Watch:
    """The thread that watches over all limits; it is started with the first one and never ends."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._deadlines: list[tuple[float, int, _Limit]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def add(self, limit: _Limit, seconds: float) -> None:
        with self._changed:
            heapq.heappush(
                self._deadlines, (time.monotonic() + seconds, next(self._numbers), limit)
            )
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="backedge-time-limits", daemon=True
                )
                self._thread.start()
            elif self._deadlines[0][2] is limit:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            self._next().expire()

    def _next(self) -> _Limit:
        """Wait for the next limit to expire."""
        with self._changed:
            while True:
                while self._deadlines and self._deadlines[0][2].ended:
                    heapq.heappop(self._deadlines)
                left = self._deadlines[0][0] - time.monotonic() if self._deadlines else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._deadlines)[2]
                self._changed.wait(left)


_watch = _Watch()


def limit_time(seconds: float, function: Callable[[], R]) -> R:
    """Return what `function` returns. Raises `TimeoutError` in it once it has run for so long.

    Code that runs no bytecode, as in a library of C or Rust, is stopped when it returns.
    """
    limit = _Limit()
    try:
        _watch.add(limit, seconds)
        try:
            result = function()
        except _Expired:
            raise
        except BaseException:
            limit.end()
            raise
        limit.end()
    except _Expired:
        raise TimeoutError(f"stopped after {seconds:g} s") from None
    return result
