"""Loggers whose lines cannot command a terminal or forge other lines.

A log line may contain the name of a model, a worker or a request, or an error that quotes a
request. Each line is bounded, too.
"""

from __future__ import annotations

import logging

from typing_extensions import override

from .errors import shorten
from .hidden_characters import escape_hidden
from .limits import MAX_LOGGED_MESSAGE, MAX_LOGGED_TRACEBACK

_FORMATTER = logging.Formatter()


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module; its lines are made visible and bounded."""
    logger = logging.getLogger(name)
    logger.addFilter(_FILTER)
    return logger


class _Visible(logging.Filter):
    @override
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = escape_hidden(shorten(record.getMessage(), MAX_LOGGED_MESSAGE))
        record.args = None
        if record.exc_info and record.exc_info[0] is not None:
            # Formatters take this text instead of making their own.
            text = _FORMATTER.formatException(record.exc_info)
            lines = shorten(text, MAX_LOGGED_TRACEBACK).split("\n")
            record.exc_text = "\n".join(map(escape_hidden, lines))
        return True


_FILTER = _Visible()
