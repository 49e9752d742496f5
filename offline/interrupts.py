"""Ctrl-C and SIGTERM: the first signal ends a batch after the running rows, a second at once.

A terminal also sends Ctrl-C to the engine's processes, which would lose the running rows. So
the main thread blocks the signal, which child processes inherit, and another thread accepts it:
Python still runs the handler in the main thread.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A shell's exit status for a process ended by a signal.
SIGNAL_EXIT_CODE = 128


class Interrupted(BaseException):
    """A signal ended the program. number: the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.number = number


class Interrupts:
    """The reaction to signals.

    first: called at the first signal, with its number, instead of raising `Interrupted`; None, the
    initial value, raises at once. number: of the first signal, or None.
    """

    def __init__(self) -> None:
        self.first: Callable[[int], None] | None = None
        self.number: int | None = None

    def handle(self, number: int, _: FrameType | None = None) -> None:
        """Handle a signal. Raises `Interrupted` if `first` is None or has been called."""
        is_first, self.number = self.number is None, number
        if not is_first or self.first is None:
            raise Interrupted(number)
        self.first(number)


@contextlib.contextmanager
def catch_interrupts() -> Iterator[Interrupts]:
    """Handle this process's signals within the context; call this in the main thread."""
    interrupts = Interrupts()
    # Where multiprocessing starts its helper process with the first child, Python 3.11 and 3.12
    # unblock Ctrl-C for all later children.
    resource_tracker.ensure_running()
    before = {number: signal.signal(number, interrupts.handle) for number in SIGNALS}
    # A thread inherits its creator's mask, so this one accepts Ctrl-C.
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
