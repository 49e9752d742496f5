from __future__ import annotations

import pytest
from backedge.parsers.events import ToolCallArguments, ToolCallStarted
from backedge.parsers.native.sent_calls import SentCalls


def test_calls_become_events():
    calls = SentCalls()
    assert (len(calls), 0 in calls) == (0, False)
    assert calls.start(0, "f", "id") == ToolCallStarted(0, "f", "id")
    assert calls.add_arguments(0, "{") == ToolCallArguments(0, "{")
    assert (len(calls), 0 in calls, 1 in calls) == (1, True, False)


@pytest.mark.parametrize(
    ("sent", "parsed", "rest"),
    [
        (['{"a": '], [{"name": "f", "arguments": {"a": "é"}}], ['"é"}']),
        (['{"a": '], [{"name": "f", "arguments": '{"a": 1}'}], ["1}"]),
        (['{"a"', ": 1}"], [{"name": "f", "arguments": '{"a": 1}'}], []),
        (["{'a'"], [{"name": "f", "arguments": {"a": 1}}], []),
        (["{"], [{"name": "f"}], []),
        (["{"], [None], []),
        (["{"], [], []),
    ],
)
def test_the_rest_that_was_parsed_is_sent(sent: list[str], parsed: list[object], rest: list[str]):
    calls = SentCalls()
    calls.start(0, "f", None)
    for text in sent:
        calls.add_arguments(0, text)
    assert list(calls.send_rest(parsed)) == [ToolCallArguments(0, text) for text in rest]
    assert list(calls.send_rest(parsed)) == []


def test_a_call_that_never_started_is_not_sent():
    assert list(SentCalls().send_rest([{"name": "f", "arguments": "{}"}])) == []
