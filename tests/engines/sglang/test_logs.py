from __future__ import annotations

import logging

import pytest
from backedge.base.limits import MAX_LOGGED
from backedge.engines.sglang.parsers import LOGGERS, SglangParsers
from backedge.parsers.base import ParserNames, ParserRequest

from benchmarks.samples.sample import ADD_NOTE
from benchmarks.samples.tokenizers import bpe

TOOLS = ParserRequest(tools=[ADD_NOTE], tool_choice="auto")


def test_a_parser_that_logs_every_token_does_not_flood(caplog: pytest.LogCaptureFixture):
    parser = SglangParsers(bpe(), ParserNames("hermes"))(TOOLS, [])
    log = logging.getLogger(f"{LOGGERS}.base_format_detector")
    with caplog.at_level(logging.ERROR):
        for _ in range(100):
            log.error("Error in parse_streaming_increment: %s", "x" * 3000)
            parser.feed("a", [1])
    written = sum(len(record.getMessage()) for record in caplog.records)
    assert MAX_LOGGED <= written < MAX_LOGGED + 4000
