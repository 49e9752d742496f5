"""A log line is one line, obeys nobody, and is bounded."""

from __future__ import annotations

import logging
from typing import NoReturn

import pytest
from backedge.base.hidden_characters import is_hidden
from backedge.base.limits import (
    LOG_WINDOW_S,
    MAX_LOGGED,
    MAX_LOGGED_MESSAGE,
    MAX_LOGGED_TRACEBACK,
)
from backedge.base.log import LineFilter, get_logger

HOSTILE = "\x1b]0;title\x07\x9b2J\u202eabc\nERROR forged"
logger = get_logger("backedge.test_log")


def text_of(caplog: pytest.LogCaptureFixture) -> str:
    return logging.Formatter().format(caplog.records[-1])


def test_arguments_are_made_visible(caplog: pytest.LogCaptureFixture) -> None:
    logger.warning("the model %s of %d", HOSTILE, 3)
    assert text_of(caplog) == (r"the model \x1b]0;title\x07\x9b2J\u{202e}abc\nERROR forged of 3")


def fail(text: str) -> NoReturn:
    raise ValueError(text)


def test_a_traceback_keeps_its_lines_only(caplog: pytest.LogCaptureFixture) -> None:
    try:
        fail(HOSTILE)
    except ValueError:
        logger.exception("failed")
    head, *lines = text_of(caplog).split("\n")
    assert (head, lines[0]) == ("failed", "Traceback (most recent call last):")
    assert not any(is_hidden(char) for line in lines for char in line)


def test_lines_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    try:
        fail("x" * 10**6)
    except ValueError:
        logger.exception("%s", "x" * 10**6)
    assert len(text_of(caplog)) <= MAX_LOGGED_MESSAGE + MAX_LOGGED_TRACEBACK + 1


def record(created: float, line: int = 1, message: str = "x" * 1000) -> logging.LogRecord:
    made = logging.LogRecord("backedge.x", logging.ERROR, "x.py", line, message, None, None)
    made.created = created
    return made


def test_a_place_that_writes_without_end_is_bounded_and_counted() -> None:
    bounded = LineFilter()
    storm = [record(0.0) for _ in range(10_000)]
    written = [each for each in storm if bounded.filter(each)]
    assert sum(len(each.msg) for each in written) <= MAX_LOGGED + MAX_LOGGED_MESSAGE
    assert bounded.filter(record(0.0, line=2))  # another place
    late = record(LOG_WINDOW_S, message="again")
    assert bounded.filter(late)
    left_out = len(storm) - len(written)
    assert late.msg == f"again (before it, {left_out} lines of this kind were left out)"
    after = record(LOG_WINDOW_S)
    assert bounded.filter(after)
    assert "left out" not in after.msg
