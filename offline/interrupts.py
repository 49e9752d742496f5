"""Ctrl-C and SIGTERM: the first ends a batch behind the rows that run, the second at once.

A terminal sends Ctrl-C to the engine's processes as well, which would end and take the running
rows with them. So the main thread blocks it, which the processes that it starts inherit, and
another thread lets it through: Python runs the handler in the main thread all the same.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# What a shell reports of a process that a signal has ended.
SIGNAL_EXIT_CODE = 128


class Interrupted(BaseException):
    """A signal ended the program. number: the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.number = number


class Interrupts:
    """What happens at a signal.

    first: called at the first signal, with its number, instead of an `Interrupted`; None, as at
    the beginning, raises it at once. number: of the first signal, None if there was none.
    """

    def __init__(self) -> None:
        self.first: Callable[[int], None] | None = None
        self.number: int | None = None

    def handle(self, number: int, _: FrameType | None = None) -> None:
        """Take a signal. Raises `Interrupted` unless `first` does something else."""
        is_first, self.number = self.number is None, number
        if not is_first or self.first is None:
            raise Interrupted(number)
        self.first(number)


@contextlib.contextmanager
def catch_interrupts() -> Iterator[Interrupts]:
    """Take the signals of this process as long as the context lasts; from the main thread."""
    interrupts = Interrupts()
    # Where multiprocessing starts this process with its first child, Python 3.11 and 3.12 unblock
    # Ctrl-C for all that follow.
    resource_tracker.ensure_running()
    before = {number: signal.signal(number, interrupts.handle) for number in SIGNALS}
    # A thread has the mask that its creator had, so this one has Ctrl-C open.
    ended = threading.Event()
    threading.Thread(target=ended.wait, name="signals", daemon=True).start()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield interrupts
    finally:
        ended.set()
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
