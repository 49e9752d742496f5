"""Requests to a running frontend; tests/e2e/test_replay.py asks a real one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.cli.replay.live import as_live, ask, build_request, read_events
from backedge.postprocess import ChoiceDelta
from backedge.postprocess.messages import Delta, FunctionDelta, ToolCallDelta

from tests.cli.replay.recordings import CALL, call


def test_a_request_has_the_recorded_parameters() -> None:
    recording = call(stop=["END"], stream=False)
    request = build_request(recording)
    assert request["messages"][0]["content"] == recording.params.response_id
    assert (request["stop"], request["tools"], request["stream"]) == (["END"], CALL["tools"], True)
    assert request["max_tokens"] == sum(len(each.chunk.token_ids) for each in recording.chunks)
    with pytest.raises(SetupError, match="2 choices"):
        build_request(call(n=2))


def encode_events(*events: Any) -> bytes:
    lines = [b": comment", *(f"data: {json.dumps(event)}".encode() for event in events)]
    return b"\n".join((*lines, b"", b"data: [DONE]"))


def test_events_become_deltas() -> None:
    called = {"index": 0, "id": "i", "type": "function", "function": {"name": "f"}}
    lines = encode_events(
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "a"}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [called]}, "finish_reason": "stop"}]},
        {"choices": []},
    )
    assert [delta for given in read_events(lines) for delta in given.deltas] == [
        ChoiceDelta(0, Delta("assistant", "a")),
        ChoiceDelta(
            0, Delta(tool_calls=[ToolCallDelta(0, FunctionDelta("", "f"), "i", "function")]), "stop"
        ),
    ]
    with pytest.raises(SetupError, match="boom"):
        list(read_events(encode_events({"error": "boom"})))


@pytest.mark.parametrize("url", ["localhost:8000", "file:///etc/passwd", "http://127.0.0.1:9"])
def test_a_frontend_that_is_not_there(url: str) -> None:
    with pytest.raises(SetupError, match=r"is not a URL|does not answer"):
        ask(call(), url)


def test_a_live_stream_begins_at_its_first_token() -> None:
    recording = msgspec.structs.replace(call(stream=False), resumed=3)
    live = as_live(recording)
    assert (live.params.stream, live.resumed) == (True, 0)
