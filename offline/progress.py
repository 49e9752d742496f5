"""Shows the progress of a batch: a bar in a terminal, else a line from time to time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from ..base.terminal import print_text

# Seconds between two plain lines.
INTERVAL_S = 10.0
WIDTH, HEIGHT = 100, 20
BAR_FORMAT = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
)


class Progress:
    """Counts the rows of a run and shows the progress on `stream`.

    total: rows of the whole batch. done, failed: those of earlier runs.
    clock: returns seconds. stream: a terminal gets tqdm's bar if tqdm is installed; otherwise a
        line is written every `INTERVAL_S` seconds and at the end.
    """

    def __init__(
        self,
        total: int,
        done: int = 0,
        failed: int = 0,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self.done = done
        self.failed = failed
        self._before = done
        self._tokens = 0
        self._clock = clock
        self._stream = stream or sys.stderr
        self._bar: Any = None
        self._started = self._shown = clock()

    def start(self) -> None:
        """Start the clock and show the bar; called when the weights are loaded."""
        self._started = self._shown = self._clock()
        self._bar = self._make_bar()

    def add(self, tokens: int, *, failed: bool) -> None:
        """Count a finished row. tokens: number generated for it, in all choices."""
        self.done += 1
        self.failed += failed
        self._tokens += tokens
        if self._bar is not None:
            self._bar.set_postfix_str(self._describe_rates(), refresh=False)
            self._bar.update()
        elif self._clock() - self._shown >= INTERVAL_S:
            self._write()

    def close(self) -> None:
        """Show the last figures."""
        if self._bar is not None:
            self._bar.close()
        else:
            self._write()

    def say(self, *lines: str) -> None:
        """Write lines without breaking the bar."""
        if self._bar is not None:
            self._bar.clear()
        print_text(*lines, file=self._stream)

    def describe(self) -> str:
        """Return the figures as one line: rows, failures, rates, remaining time."""
        share = self.done / self.total if self.total else 1.0
        parts = [
            f"{self.done:,}/{self.total:,} rows ({share:.0%})",
            self._describe_rates(),
            f"{_format_time(self._clock() - self._started)} so far",
        ]
        if (left := self._left()) is not None:
            parts.append(f"{_format_time(left)} left")
        return ", ".join(parts)

    def _describe_rates(self) -> str:
        rows, tokens = self._rates()
        failed = f"{self.failed:,} failed, " if self.failed else ""
        return f"{failed}{rows:,.1f} rows/s, {tokens:,.0f} tokens/s"

    def _rates(self) -> tuple[float, float]:
        """Return rows and tokens per second of this run."""
        passed = max(self._clock() - self._started, 1e-9)
        return (self.done - self._before) / passed, self._tokens / passed

    def _left(self) -> float | None:
        """Return the remaining seconds; None while unknown."""
        rows, _ = self._rates()
        return (self.total - self.done) / rows if rows and self.done < self.total else None

    def _write(self) -> None:
        self._shown = self._clock()
        self.say(self.describe())

    def _make_bar(self) -> Any:
        if not self._stream.isatty():
            return None
        try:
            from tqdm import tqdm
        except ImportError:
            return None
        knows_size = _knows_size(self._stream)
        return tqdm(
            total=self.total,
            initial=self.done,
            desc="rows",
            file=self._stream,
            bar_format=BAR_FORMAT,
            dynamic_ncols=knows_size,
            ncols=None if knows_size else WIDTH,
            nrows=None if knows_size else HEIGHT,
        )


def _knows_size(terminal: TextIO) -> bool:
    """Whether a terminal reports its size; a container's may not."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns > 0
    except OSError:
        return False


def _format_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
