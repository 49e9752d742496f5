"""A log line is one line, obeys nobody, and is bounded."""

from __future__ import annotations

import io
import logging
import time
from typing import NoReturn

import pytest
from backedge.base.hidden_characters import is_hidden
from backedge.base.limits import (
    LOG_WINDOW_S,
    MAX_LOGGED,
    MAX_LOGGED_MESSAGE,
    MAX_LOGGED_TRACEBACK,
)
from backedge.base.log import BoundedText, LineFilter, bound_loggers, get_logger

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


def test_a_line_that_a_logger_and_its_handler_pass_on_counts_once() -> None:
    bounded, one = LineFilter(), record(0.0)
    assert bounded.filter(one)
    assert bounded.filter(one)
    assert [place.written for place in bounded.places.values()] == [len(one.msg)]


def test_the_loggers_of_other_packages_are_bounded_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inside, beside = (logging.getLogger(name) for name in ("other.parsers.x", "other.parsers_y"))
    bound_loggers("other.parsers")
    inside.error("%s", HOSTILE)
    assert "\x07" not in text_of(caplog)
    beside.error("%s", HOSTILE)
    assert "\x07" in text_of(caplog)


def test_what_is_printed_without_end_is_bounded_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inner, now = io.StringIO(), 0.0
    monkeypatch.setattr(time, "time", lambda: now)
    bounded = BoundedText(inner)
    for _ in range(10_000):
        bounded.write("x" * 100)
    length = len(inner.getvalue())
    assert MAX_LOGGED <= length < MAX_LOGGED + 100
    now = LOG_WINDOW_S
    print("again", file=bounded)
    left_out = 10_000 - length // 100
    assert inner.getvalue()[length:] == (f"(before it, {left_out} writes were left out) again\n")
