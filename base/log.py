"""Loggers whose lines cannot command a terminal or forge other lines.

A log line may contain the name of a model, a worker or a request, or an error that quotes a
request. Each line is bounded, and so is what one place in the code writes in a minute.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

from typing_extensions import override

from .errors import shorten
from .hidden_characters import escape_hidden
from .limits import LOG_WINDOW_S, MAX_LOGGED, MAX_LOGGED_MESSAGE, MAX_LOGGED_TRACEBACK

_FORMATTER = logging.Formatter()


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module; its lines are made visible and bounded."""
    logger = logging.getLogger(name)
    logger.addFilter(line_filter)
    return logger


def bound_loggers(*names: str) -> None:
    """Make the lines of other packages' loggers visible and bounded, as ours are.

    names: of the loggers, which must exist by now; those below them are bounded as well.
    Many parsers read the same text again with every token, and log the same error.
    """
    for name in list(logging.root.manager.loggerDict):
        if f"{name}.".startswith(tuple(f"{above}." for above in names)):
            logging.getLogger(name).addFilter(line_filter)


def bound_output() -> None:
    """Bound all that Python code writes to this process's log, with loggers and without them."""
    for handler in _find_handlers():
        handler.addFilter(line_filter)
    sys.stdout, sys.stderr = BoundedText(sys.stdout), BoundedText(sys.stderr)


def _find_handlers() -> Iterator[logging.Handler]:
    if logging.lastResort is not None:
        yield logging.lastResort
    for logger in (logging.root, *map(logging.getLogger, list(logging.root.manager.loggerDict))):
        yield from logger.handlers


@dataclass
class _Place:
    """A place in the code that writes log lines. written: characters since `began`."""

    began: float
    written: int = 0
    left_out: int = 0

    def take(self, now: float) -> int | None:
        """Count a line. Return how many were left out before it; None to leave it out."""
        left_out = 0
        if not 0 <= now - self.began < LOG_WINDOW_S:
            left_out = self.left_out
            self.began, self.written, self.left_out = now, 0, 0
        if self.written >= MAX_LOGGED:
            self.left_out += 1
            return None
        return left_out


class LineFilter(logging.Filter):
    """Makes lines visible and bounds them; leaves out those of a place that writes too many.

    places: by file and line number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[tuple[str, int], _Place] = {}
        self._passed = threading.local()

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        known = id(record), record.created
        if getattr(self._passed, "record", None) == known:
            return True  # the logger's filter has counted it, before the handler's
        place = self.places.setdefault((record.pathname, record.lineno), _Place(record.created))
        left_out = place.take(record.created)
        if left_out is None:
            return False
        self._passed.record = known
        _make_visible(record)
        if left_out:
            record.msg += f" (before it, {left_out} lines of this kind were left out)"
        place.written += len(record.msg) + len(record.exc_text or "")
        return True


def _make_visible(record: logging.LogRecord) -> None:
    record.msg = escape_hidden(shorten(record.getMessage(), MAX_LOGGED_MESSAGE))
    record.args = None
    if record.exc_info and record.exc_info[0] is not None:
        # Formatters take this text instead of making their own.
        text = _FORMATTER.formatException(record.exc_info)
        lines = shorten(text, MAX_LOGGED_TRACEBACK).split("\n")
        record.exc_text = "\n".join(map(escape_hidden, lines))


line_filter = LineFilter()


@dataclass(eq=False)
class BoundedText(io.TextIOBase):
    """A text stream that leaves out writes as `LineFilter` leaves out lines. inner: gets the rest.

    place: all code that writes to the stream is one.
    """

    inner: TextIO
    place: _Place = field(default_factory=lambda: _Place(time.time()))

    @override
    def write(self, text: str) -> int:
        """Write a text, or its beginning and its end. Return the number of its characters."""
        left_out = self.place.take(time.time())
        if left_out is not None:
            told = f"(before it, {left_out} writes were left out) " if left_out else ""
            shown = told + shorten(text, MAX_LOGGED_TRACEBACK)
            self.place.written += len(shown)
            self.inner.write(shown)
        return len(text)

    @override
    def flush(self) -> None:
        self.inner.flush()

    @override
    def fileno(self) -> int:
        return self.inner.fileno()
