"""A time limit for a model's chat template, which may never end.

Python stops a thread only by raising an exception in it: `PyThreadState_SetAsyncExc` of the C API
does so at one of its next bytecodes, anywhere. So the limited thread must take no lock that such an
exception could leave held.
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
    """Raised in the limited thread. Not an Exception, so that `except Exception` lets it pass."""


class _Limit:
    """The limit of one call.

    The watch writes `claimed`, reads `ended`, then writes `sent`. The limited thread writes
    `ended` before it reads `claimed` and `sent`. So at least one of them sees the other.
    """

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
        """Lift the limit. If `_Expired` is on its way, it is raised here and nowhere else."""
        self.ended = True
        while self.claimed and self.sent is not False:
            time.sleep(0)


class _Watch:
    """The thread that enforces all limits, from the first limit to the end of the process."""

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
        """Wait until a limit expires, and return it."""
        with self._changed:
            while True:
                while self._deadlines and self._deadlines[0][2].ended:
                    heapq.heappop(self._deadlines)
                left = self._deadlines[0][0] - time.monotonic() if self._deadlines else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._deadlines)[2]
                self._changed.wait(left)


_watch = _Watch()


def call_with_time_limit(seconds: float, function: Callable[[], R]) -> R:
    """Return the result of `function`. Raises `TimeoutError` if it takes longer than `seconds`.

    Code that runs no bytecode, such as a C or Rust library, is stopped when it returns.
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
