"""Loggers whose lines cannot command a terminal or forge other lines.

A log line may contain the name of a model, a worker or a request, or an error that quotes a
request. Each line is bounded, and so is what one place in the code writes in a minute.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

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


@dataclass
class _Place:
    """A place in the code that writes log lines. written: characters since `began`."""

    began: float
    written: int = 0
    left_out: int = 0


class LineFilter(logging.Filter):
    """Makes lines visible and bounds them; leaves out those of a place that writes too many.

    places: by file and line number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[tuple[str, int], _Place] = {}

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        key = record.pathname, record.lineno
        place = self.places.setdefault(key, _Place(record.created))
        left_out = 0
        if not 0 <= record.created - place.began < LOG_WINDOW_S:
            left_out = place.left_out
            place = self.places[key] = _Place(record.created)
        if place.written >= MAX_LOGGED:
            place.left_out += 1
            return False
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
