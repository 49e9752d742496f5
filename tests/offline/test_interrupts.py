"""Ctrl-C and SIGTERM: the handler's two steps, and processes that do not see Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection
from typing import Any

import pytest
from backedge.offline.interrupts import Interrupted, Interrupts, catch_interrupts


def test_a_signal_ends_at_once_unless_told_otherwise() -> None:
    with pytest.raises(Interrupted) as caught:
        Interrupts().handle(signal.SIGTERM)
    assert caught.value.number == signal.SIGTERM
    assert str(caught.value) == "Terminated"


def test_the_first_signal_can_do_something_else_and_the_second_ends() -> None:
    seen: list[int] = []
    interrupts = Interrupts()
    interrupts.first = seen.append
    interrupts.handle(signal.SIGINT)
    assert (seen, interrupts.number) == ([signal.SIGINT], signal.SIGINT)
    with pytest.raises(Interrupted):
        interrupts.handle(signal.SIGINT)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    for _ in range(10_000):  # Python runs handlers in this thread, at its next chance.
        time.sleep(0.001)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_handler(number: signal.Signals) -> None:
    before = signal.getsignal(number), signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with catch_interrupts(), pytest.raises(Interrupted):
        send(number)
    assert (signal.getsignal(number), signal.pthread_sigmask(signal.SIG_BLOCK, [])) == before


def wait_and_tell(pipe: Connection) -> None:
    """Say whether Ctrl-C reached this process before SIGTERM did."""
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    signal.signal(signal.SIGTERM, lambda *_: pipe.send(seen))
    pipe.send("ready")
    time.sleep(60)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_that_is_started_does_not_see_ctrl_c(method: str) -> None:
    """As an engine's, which the terminal sends Ctrl-C, too."""
    context: Any = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    with catch_interrupts():
        process = context.Process(target=wait_and_tell, args=(theirs,))
        process.start()
        assert ours.recv() == "ready"
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGTERM)
        assert ours.recv() == []
    process.kill()
    process.join()
