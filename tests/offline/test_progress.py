"""Progress: plain lines and their figures, the bar of a terminal."""

from __future__ import annotations

import io
import sys

import pytest
from backedge.offline.progress import INTERVAL_S, Progress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_plain_lines_come_now_and_then(clock: Clock) -> None:
    stream = io.StringIO()
    progress = Progress(2000, done=1000, failed=2, stream=stream, clock=clock)
    for _ in range(99):
        progress.add(20, failed=False)
    assert not stream.getvalue()
    clock.now += INTERVAL_S
    progress.add(20, failed=True)
    progress.add(20, failed=False)
    assert stream.getvalue() == (
        "1,100/2,000 rows (55%), 3 failed, 10.0 rows/s, 200 tokens/s, 0:10 so far, 1:30 left\n"
    )


def test_the_last_line_comes_at_the_end(clock: Clock) -> None:
    stream = io.StringIO()
    progress = Progress(2, stream=stream, clock=clock)
    clock.now += 4000
    progress.add(100, failed=False)
    progress.add(100, failed=False)
    progress.close()
    lines = stream.getvalue().splitlines()
    assert lines[-1] == "2/2 rows (100%), 0.0 rows/s, 0 tokens/s, 1:06:40 so far"


def test_nothing_to_do_is_all(clock: Clock) -> None:
    progress = Progress(0, stream=io.StringIO(), clock=clock)
    assert progress.describe() == "0/0 rows (100%), 0.0 rows/s, 0 tokens/s, 0:00 so far"


def test_a_terminal_has_a_bar(clock: Clock) -> None:
    stream = Terminal()
    progress = Progress(10, done=4, stream=stream, clock=clock)
    progress.say("loading")
    assert stream.getvalue() == "loading\n"
    clock.now += 100
    progress.start()
    clock.now += 2
    progress.add(30, failed=True)
    progress.say("a line")
    progress.close()
    shown = stream.getvalue()
    assert "rows:  50%|" in shown
    assert "5/10" in shown
    assert "1 failed, 0.5 rows/s, 15 tokens/s" in shown
    assert "a line\n" in shown


def test_a_terminal_without_tqdm_has_lines(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    stream = Terminal()
    progress = Progress(1, stream=stream, clock=clock)
    progress.start()
    progress.add(1, failed=False)
    progress.close()
    assert stream.getvalue().startswith("1/1 rows (100%)")
