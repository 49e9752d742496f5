from __future__ import annotations

import logging

import pytest
from backedge.engines.sglang.parsers import LOG_INTERVAL_S, LOGGERS, LogThrottle, SglangParsers
from backedge.parsers.base import ParserNames, ParserRequest

from benchmarks.samples.sample import ADD_NOTE
from benchmarks.samples.tokenizers import bpe

TOOLS = ParserRequest(tools=[ADD_NOTE], tool_choice="auto")


def test_a_parser_that_logs_every_token_does_not_flood(caplog: pytest.LogCaptureFixture):
    parser = SglangParsers(bpe(), ParserNames("hermes"))(TOOLS, [])
    log = logging.getLogger(f"{LOGGERS}.base_format_detector")
    with caplog.at_level(logging.ERROR):
        for _ in range(100):
            log.error("Error in parse_streaming_increment")
            parser.feed("a", [1])
    assert len(caplog.records) == 1


def record(line: int, created_s: float) -> logging.LogRecord:
    made = logging.LogRecord("sglang", logging.ERROR, "parser.py", line, "again", None, None)
    made.created = created_s
    return made


def test_one_record_a_line_and_interval():
    throttle = LogThrottle()
    passed = [
        (line, created_s)
        for line, created_s in (
            (1, 100.0), (1, 101.0), (2, 101.0), (1, 99.0 + LOG_INTERVAL_S),
            (1, 100.0 + LOG_INTERVAL_S), (1, 101.0 + LOG_INTERVAL_S),
        )
        if throttle.filter(record(line, created_s))
    ]  # fmt: skip
    assert passed == [(1, 100.0), (2, 101.0), (1, 100.0 + LOG_INTERVAL_S)]
