"""Limits the log output of SGLang's parsers."""

from __future__ import annotations

import logging

from typing_extensions import override

LOGGERS = "sglang.srt.function_call"
LOG_INTERVAL_S = 60


class LogThrottle(logging.Filter):
    """Passes one record per line of code every `LOG_INTERVAL_S` seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, int], float] = {}

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        place = record.pathname, record.lineno
        passes = record.created - self._last.get(place, 0) >= LOG_INTERVAL_S
        if passes:
            self._last[place] = record.created
        return passes


_THROTTLE = LogThrottle()


def throttle_logs() -> None:
    """Throttle the loggers of SGLang's parsers, which exist once its modules are imported.

    After an error, many parsers retry the same text with every token and log the same error.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(LOGGERS):
            logging.getLogger(name).addFilter(_THROTTLE)
