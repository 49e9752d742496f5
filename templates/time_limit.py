"""Stops code that takes too long.

A template may never end, so it has a time limit. Python stops a thread only by raising an
exception in it: `PyThreadState_SetAsyncExc` of the C API does so at one of its next bytecodes,
anywhere. So the limited thread must take no lock that such an exception could leave held.
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

# An exception is lost if it comes while a destructor or a callback of the garbage collector runs.
# So it is sent again until the call has ended.
AGAIN_S = 0.25
# More than the interpreter runs before it looks for an exception. None is taken back: the
# interpreter would look for it at each call from then on.
BYTECODES = 10


class _Expired(BaseException):
    """Raised in the limited thread. Not an Exception, so that `except Exception` lets it pass."""


class _Limit:
    """The limit of one call.

    The watch writes None to `sent` and reads `ended`; then it writes to `sent` whether it has sent
    `_Expired`. The limited thread writes `ended` before it reads `sent`. So at least one of them
    sees the other.

    cpu_s: the CPU time that the thread may take; None to limit the time that passes.
    """

    __slots__ = ("clock", "cpu_end", "ended", "sent", "thread")

    def __init__(self, cpu_s: float | None) -> None:
        self.thread = threading.get_ident()
        self.clock = None if cpu_s is None else time.pthread_getcpuclockid(self.thread)
        self.cpu_end = time.thread_time() + (cpu_s or 0.0)
        self.ended = False
        self.sent: bool | None = False

    def cpu_left(self) -> float:
        """Return the CPU time that is left; 0 if the time that passes is limited."""
        if self.clock is None or self.ended:
            return 0.0
        try:
            return self.cpu_end - time.clock_gettime(self.clock)
        except OSError:  # the thread has ended
            return 0.0

    def expire(self) -> None:
        """Send `_Expired`, unless the call has ended."""
        before, self.sent = self.sent, None
        sent = not self.ended
        if sent:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread), ctypes.py_object(_Expired)
            )
        self.sent = sent or before

    def end(self) -> None:
        """Lift the limit. If `_Expired` is on its way, it is raised here and nowhere else."""
        self.ended = True
        while self.sent is None:
            time.sleep(0)
        if self.sent:
            for _ in range(BYTECODES):
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
            self._push(limit, seconds)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="backedge-time-limits", daemon=True
                )
                self._thread.start()
            elif self._deadlines[0][2] is limit:
                self._changed.notify()

    def _push(self, limit: _Limit, seconds: float) -> None:
        heapq.heappush(self._deadlines, (time.monotonic() + seconds, next(self._numbers), limit))

    def _run(self) -> None:
        while True:
            limit = self._next()
            limit.expire()
            with self._changed:
                self._push(limit, AGAIN_S)

    def _next(self) -> _Limit:
        """Wait until a limit expires, and return it."""
        with self._changed:
            while True:
                left = self._deadlines[0][0] - time.monotonic() if self._deadlines else None
                if left is None or left > 0:
                    # Also for a call that has ended: else each call would wake this thread.
                    self._changed.wait(left)
                    continue
                limit = heapq.heappop(self._deadlines)[2]
                if limit.ended:
                    while self._deadlines and self._deadlines[0][2].ended:
                        heapq.heappop(self._deadlines)
                    continue
                cpu_left = limit.cpu_left()
                if cpu_left <= 0:
                    return limit
                self._push(limit, cpu_left)


class _Thread(threading.local):
    """Whether a limit is active in this thread."""

    is_limited = False


_watch = _Watch()
_thread = _Thread()


def call_with_time_limit(
    seconds: float, function: Callable[[], R], *, counts_cpu: bool = False
) -> R:
    """Return the result of `function`. Raises `TimeoutError` if it takes longer than `seconds`.

    counts_cpu: the CPU time of this thread counts, not the time that passes.
    Code that runs no bytecode, such as a C or Rust library, is stopped when it returns. Within
    another limit, that one alone counts.
    """
    if _thread.is_limited:
        return function()
    limit = _Limit(seconds if counts_cpu else None)
    _thread.is_limited = True
    try:
        _watch.add(limit, seconds)
        try:
            return function()
        finally:
            limit.end()
    except _Expired:
        _settle(limit)
        raise TimeoutError(f"stopped after {seconds:g} s") from None
    finally:
        _thread.is_limited = False


def _settle(limit: _Limit) -> None:
    """End a limit for which one more `_Expired` may be on its way."""
    while True:
        try:
            return limit.end()
        except _Expired:
            continue
