"""The load generator finds every difference between a response and its transcript."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from benchmarks.answers import Answer, answer
from benchmarks.load import Client, Load, Response, post


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": delta, "finish_reason": finish_reason}]}


def respond(asked: Answer, **changes: Any) -> Response:
    """Return a response with the texts of `asked`, one delta a kind."""
    texts, response = asked.texts, Response()
    call = {"function": {"arguments": changes.get("arguments", texts.arguments)}}
    response.add(chunk({"reasoning_content": changes.get("reasoning", texts.reasoning)}))
    response.add(chunk({"content": changes.get("content", texts.content)}))
    response.add(chunk({"tool_calls": [call]} if texts.arguments else {}))
    finish_reason = "tool_calls" if texts.arguments else "stop"
    response.add(chunk({}, changes.get("finish_reason", finish_reason)))
    tokens = changes.get("tokens", len(asked.token_ids))
    response.add({"choices": [], "usage": {"completion_tokens": tokens}})
    return response


@pytest.mark.parametrize("kind", ["content", "reasoning", "tools"])
def test_a_right_response_has_no_problems(kind: str) -> None:
    response = respond(answer(kind))
    assert response.problems(answer(kind), 0) == []
    assert response.chunks == 4


@pytest.mark.parametrize(
    ("kind", "changes", "problem"),
    [
        ("content", {"content": "no"}, "content of 2 characters"),
        ("reasoning", {"reasoning": "no"}, "reasoning of 2 characters"),
        ("tools", {"arguments": "{}"}, "arguments of 2 characters"),
        ("content", {"tokens": 1}, "1 completion tokens"),
        ("tools", {"finish_reason": "length"}, "finish_reason 'length'"),
    ],
)
def test_a_difference_is_a_problem(kind: str, changes: dict[str, Any], problem: str) -> None:
    (found,) = respond(answer(kind), **changes).problems(answer(kind), 0)
    assert found.startswith(problem)


def test_white_space_between_the_parts_of_json_is_no_difference() -> None:
    spaced = json.dumps(json.loads(answer("tools").texts.arguments), indent=2)
    assert not respond(answer("tools"), arguments=spaced).problems(answer("tools"), 0)


def test_of_a_cut_answer_only_the_length_counts() -> None:
    response = respond(answer("content"), content="cut", tokens=1, finish_reason="length")
    assert response.problems(answer("content"), 1) == []
    assert response.problems(answer("content"), 2) == ["1 completion tokens instead of 2"]


def receive(reply: bytes) -> list[dict[str, Any]]:
    """Return the objects that `post` yields from a server that sends `reply`."""

    async def run() -> list[dict[str, Any]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(reply)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return [event async for event in post(f"http://127.0.0.1:{port}", b"{}")]

    return asyncio.run(run())


def chunked(*blocks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(block), block) for block in (*blocks, b""))


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def test_events_may_be_cut_anywhere() -> None:
    blocks = chunked(
        b'data: {"choi', b'ces": [1]}\n\ndata: {"choices": []}\n', b"\ndata: [DONE]\n\n"
    )
    assert receive(STREAM + blocks) == [{"choices": [1]}, {"choices": []}]


def test_a_response_without_a_stream_is_one_object() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n"
    assert receive(head + b'{"choices": []}') == [{"choices": []}]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\nno", "HTTP 400: no"),
        (STREAM + chunked(b'data: {"error": "late"}\n\n'), "error in the stream"),
    ],
)
def test_an_error_is_raised(reply: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        receive(reply)


def test_the_process_answers_each_load() -> None:
    """Nothing listens there, so every request is a problem."""
    load = Load("http://127.0.0.1:9", "tiny", "content", False, 0, 2, 3)
    with Client() as client:
        for _ in range(2):
            outcome = client.run(load)
            assert (outcome.requests, sum(outcome.problems.values()), outcome.tokens) == (3, 3, 0)
