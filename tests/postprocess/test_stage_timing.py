"""The time of each stage, by a clock that a test turns."""

import itertools

import pytest
from backedge.postprocess.stage_timing import StageClock, StageTime


class Parser:
    failed = False

    def feed(self, text):
        return text.upper()

    def reads_together(self, token_ids):
        return False

    def finish(self):
        raise ValueError("broken")

    def degrade(self, error):
        return error


def test_each_call_adds_its_time():
    clock = StageClock(itertools.count(0.0, 2.0).__next__)
    parser = clock.measure("parse", Parser())
    assert parser.feed("a") + parser.feed("b") == "AB"
    assert parser.failed is False
    assert clock.take(5) == [StageTime("parse", 4.0, 5)]
    assert clock.take(6) == [StageTime("parse", 0.0, 1)]


def test_the_time_of_a_call_that_raises_counts():
    clock = StageClock(itertools.count(0.0, 2.0).__next__)
    parser = clock.measure("parse", Parser())
    with pytest.raises(ValueError, match="broken"):
        parser.finish()
    assert clock.take(1) == [StageTime("parse", 2.0, 1)]


def test_without_a_clock_nothing_is_touched():
    parser = Parser()
    clock = StageClock()
    assert clock.measure("parse", parser) is parser
    assert clock.take(5) == []
