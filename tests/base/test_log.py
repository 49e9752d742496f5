"""A log line is one line, obeys nobody, and is bounded."""

from __future__ import annotations

import logging
from typing import NoReturn

import pytest
from backedge.base.hidden_characters import is_hidden
from backedge.base.limits import MAX_LOGGED_MESSAGE, MAX_LOGGED_TRACEBACK
from backedge.base.log import get_logger

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
