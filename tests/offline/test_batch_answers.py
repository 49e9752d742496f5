"""A result as a line of the output, in the form of its row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.offline.batch_output import build_answer
from backedge.offline.results import (
    GeneratedChoice,
    GenerationResult,
    ParsedMessage,
    RowError,
    RowErrorKind,
    ToolCall,
)
from backedge.postprocess.messages import TokenLogprob

PLAIN = {"prompt": "Hi", "label": 3}
BATCH = {"custom_id": "a", "url": "/v1/chat/completions", "body": {"messages": []}}
CHOICE = GeneratedChoice(
    index=0, text="Hello", raw_text="Hello<|im_end|>", token_ids=[5, 1], finish_reason="stop"
)
PARSED = ParsedMessage("Think.", None, [ToolCall("call_1", "f", '{"a": 1}')], "tool_calls")


def result(*choices: GeneratedChoice, error: RowError | None = None) -> GenerationResult:
    return GenerationResult(
        id="x", index=9, backend="replay", prompt_tokens=4, choices=list(choices), error=error
    )


def answer(row: dict[str, Any], made: GenerationResult, *, raw: bool = False) -> dict[str, Any]:
    line = build_answer(row, 7, made, model="tiny", raw=raw)
    assert b"\n" not in line
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_plain_row_has_its_answer_as_a_field() -> None:
    assert answer(PLAIN, result(CHOICE)) == {
        **PLAIN,
        "response": {
            "id": "backedge-7",
            "backend": "replay",
            "text": "Hello",
            "finish_reason": "stop",
            "stop_reason": None,
            "prompt_tokens": 4,
            "completion_tokens": 2,
            "error": None,
        },
    }


def test_a_batch_row_has_openai_s_answer() -> None:
    assert answer(BATCH, result(CHOICE)) == {
        "id": "backedge-7",
        "custom_id": "a",
        "response": {
            "status_code": 200,
            "request_id": "backedge-7",
            "body": {
                "id": "chatcmpl-backedge-7",
                "object": "chat.completion",
                "created": 0,
                "model": "tiny",
                "system_fingerprint": "backedge-replay",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "Hello"},
                        "logprobs": None,
                        "finish_reason": "stop",
                        "stop_reason": None,
                    }
                ],
                "usage": {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6},
            },
        },
        "error": None,
    }


def test_several_choices() -> None:
    second = GeneratedChoice(
        index=1, text="Hey", raw_text="Hey", token_ids=[6], finish_reason="length"
    )
    response = answer(PLAIN, result(CHOICE, second))["response"]
    assert [choice["text"] for choice in response["choices"]] == ["Hello", "Hey"]
    assert "text" not in response
    choices = answer(BATCH, result(CHOICE, second))["response"]["body"]["choices"]
    assert [choice["index"] for choice in choices] == [0, 1]


def test_a_parsed_message_with_logprobs_and_tokens() -> None:
    choice = GeneratedChoice(
        index=0,
        text="all",
        raw_text="all<|im_end|>",
        token_ids=[5],
        finish_reason="stop",
        stop_reason=5,
        logprobs=[TokenLogprob("all", float("-inf"), [97], [])],
        message=PARSED,
    )
    logprob = {"token": "all", "logprob": None, "bytes": [97], "top_logprobs": []}
    function = {"name": "f", "arguments": '{"a": 1}'}
    [found] = answer(BATCH, result(choice), raw=True)["response"]["body"]["choices"]
    assert found == {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Think.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        "logprobs": {"content": [logprob]},
        "finish_reason": "tool_calls",
        "stop_reason": 5,
        "raw_text": "all<|im_end|>",
        "token_ids": [5],
    }
    response = answer(PLAIN, result(choice), raw=True)["response"]
    assert response["message"]["reasoning"] == "Think."
    assert response["message"]["tool_calls"] == [{"id": "call_1", **function}]
    assert response["logprobs"] == [logprob]
    assert (response["raw_text"], response["token_ids"]) == ("all<|im_end|>", [5])


@pytest.mark.parametrize(
    ("kind", "status"), [("request", 400), ("image", 400), ("generation", 500)]
)
def test_a_failure(kind: RowErrorKind, status: int) -> None:
    failed = result(error=RowError(kind, "Why."))
    error = {"code": kind, "message": "Why."}
    assert answer(PLAIN, failed) == {
        **PLAIN,
        "response": {"id": "backedge-7", "backend": "replay", "error": error},
    }
    assert answer(BATCH, failed) == {
        "id": "backedge-7",
        "custom_id": "a",
        "response": {
            "status_code": status,
            "request_id": "backedge-7",
            "body": {"error": error},
        },
        "error": error,
    }
