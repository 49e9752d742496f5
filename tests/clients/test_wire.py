"""What /v1/responses and /v1/messages make of an answer, and what they leave out, on the wire.

Dynamo turns these requests into chat requests and the chunks back; docs/clients.md lists the rest.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

TEXT, TWO_CALLS = "Say hello to the client.", "What is the weather in Rome and in Oslo, please?"
RESPONSES, MESSAGES, CHAT = "/v1/responses", "/v1/messages", "/v1/chat/completions"
SUMMARY = {"reasoning": {"summary": "auto"}}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TIMEOUT_S = 60


def build(path: str, text: str, schema: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """Return a request. schema: of the parameters of the tool `f`; None for no tool."""
    tools: dict[str, dict[str, Any]] = {
        RESPONSES: {"type": "function", "name": "f", "parameters": schema},
        MESSAGES: {"name": "f", "input_schema": schema},
        CHAT: {"type": "function", "function": {"name": "f", "parameters": schema}},
    }
    messages = [{"role": "user", "content": text}]
    asked: dict[str, Any] = {"input": text} if path == RESPONSES else {"messages": messages}
    if path == MESSAGES:
        asked["max_tokens"] = 500
    if schema:
        asked["tools"] = [tools[path]]
    return {"model": "tiny", **asked, **fields}


def post(url: str, path: str, **fields: Any) -> httpx2.Response:
    fields = {"text": TEXT, "schema": None, **fields}
    return httpx2.post(url + path, json=build(path, **fields), timeout=TIMEOUT_S)


def events(response: httpx2.Response) -> Iterator[tuple[str, str, Any]]:
    """Yield each event's type, its delta's type and the position of its item or block."""
    for line in response.text.splitlines():
        if line.startswith("data: {"):
            event = json.loads(line.removeprefix("data: "))
            delta = event.get("delta")
            kind = delta.get("type", "") if isinstance(delta, dict) else ""
            yield event["type"], kind, event.get("output_index", event.get("index"))


def order(response: httpx2.Response) -> list[tuple[str, str, Any]]:
    """Return the events, repeated ones once."""
    return [event for event, _ in itertools.groupby(events(response))]


# Fields of /v1/responses, the types of the answer's items
ITEMS = [
    ({}, ["message"]),
    ({"reasoning": {"effort": "high"}}, ["message"]),
    ({"include": ["reasoning.encrypted_content"]}, ["message"]),
    (SUMMARY, ["reasoning", "message"]),
]


@pytest.mark.parametrize(("fields", "types"), ITEMS)
def test_responses_have_reasoning_items_if_a_summary_is_asked_for(
    url: str, fields: dict[str, Any], types: list[str]
) -> None:
    output = post(url, RESPONSES, **fields).json()["output"]
    assert [item["type"] for item in output] == types
    if "reasoning" in types:
        assert output[0]["summary"] == []
        assert output[0]["content"] == [
            {"type": "reasoning_text", "text": "\nA greeting will do.\n"}
        ]


def test_responses_stream_reasoning_and_arguments(url: str) -> None:
    answer = post(url, RESPONSES, text=TWO_CALLS, schema=PARAMETERS, stream=True, **SUMMARY)
    kinds = [(kind.removeprefix("response."), index) for kind, _, index in order(answer)]
    arguments = "function_call_arguments"
    assert kinds == [
        ("created", None),
        ("in_progress", None),
        ("output_item.added", 0),
        ("content_part.added", 0),
        ("reasoning_text.delta", 0),
        ("reasoning_text.done", 0),
        ("content_part.done", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        (f"{arguments}.delta", 1),
        ("output_item.added", 2),
        (f"{arguments}.delta", 2),
        # Dynamo ends a call with the answer, not where the next one begins.
        (f"{arguments}.done", 1),
        ("output_item.done", 1),
        (f"{arguments}.done", 2),
        ("output_item.done", 2),
        ("completed", None),
    ]


def test_messages_stream_thinking_and_then_whole_blocks_of_calls(url: str) -> None:
    answer = post(url, MESSAGES, text=TWO_CALLS, schema=PARAMETERS, stream=True)
    blocks = [
        [("content_block_start", "", index), *deltas, ("content_block_stop", "", index)]
        for index, deltas in enumerate(
            [
                [
                    ("content_block_delta", "thinking_delta", 0),
                    ("content_block_delta", "signature_delta", 0),
                ],
                [("content_block_delta", "input_json_delta", 1)],
                [("content_block_delta", "input_json_delta", 2)],
            ]
        )
    ]
    assert order(answer) == [
        ("message_start", "", None),
        *itertools.chain(*blocks),
        ("message_delta", "", None),
        ("message_stop", "", None),
    ]


# Fields of /v1/messages that Dynamo drops: reasoning is neither switched off nor limited.
DROPPED = [
    {"thinking": {"type": "disabled"}},
    {"thinking": {"type": "enabled", "budget_tokens": 1024}},
]


@pytest.mark.parametrize("fields", DROPPED)
def test_messages_have_thinking_in_any_case(url: str, fields: dict[str, Any]) -> None:
    blocks = post(url, MESSAGES, **fields).json()["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text"]
    assert (blocks[0]["thinking"], blocks[0]["signature"]) == ("\nA greeting will do.\n", "")


def test_messages_name_the_stop_sequence(url: str) -> None:
    answer = post(url, MESSAGES, stop_sequences=["nothing", "client"]).json()
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "client")
    assert answer["content"][-1]["text"] == "\n\nHello, "


@pytest.mark.parametrize("stream", [False, True])
def test_messages_have_no_call_that_a_limit_cuts(url: str, stream: bool) -> None:
    asked = {"text": "What is the weather in Paris, please?", "max_tokens": 32}
    answer = post(url, MESSAGES, schema=PARAMETERS, stream=stream, **asked)
    assert answer.text.count('"stop_reason":"max_tokens"') == 1
    assert '"type":"thinking"' in answer.text
    assert "tool_use" not in answer.text
    assert '"type":"text"' not in answer.text


# path, fields that have no effect
IGNORED = [
    (RESPONSES, {"stop": ["client"]}),
    (RESPONSES, {"top_k": 0}),
    (RESPONSES, {"include": ["message.output_text.logprobs"]}),
    (MESSAGES, {"metadata": {"user_id": "u"}}),
    (MESSAGES, {"stop": ["client"]}),
]


@pytest.mark.parametrize(("path", "fields"), IGNORED)
def test_what_is_ignored(url: str, path: str, fields: dict[str, Any]) -> None:
    plain, answer = (post(url, path, **each).json() for each in ({}, fields))
    contents = [
        each["output"][-1]["content"] if path == RESPONSES else each["content"]
        for each in (plain, answer)
    ]
    assert contents[0] == contents[1]
    assert path == MESSAGES or contents[1][0]["logprobs"] == []


def test_messages_count_tokens_by_an_estimate(url: str) -> None:
    asked = build(MESSAGES, TEXT, None)
    counted = httpx2.post(f"{url}{MESSAGES}/count_tokens", json=asked, timeout=TIMEOUT_S).json()
    assert 0 < counted["input_tokens"] < post(url, MESSAGES).json()["usage"]["input_tokens"]


# path, fields, status, part of the message: what Dynamo's HTTP layer refuses
REFUSED = [
    (RESPONSES, {"previous_response_id": "resp_1"}, 501, "previous_response_id"),
    (RESPONSES, {"background": True, "store": True}, 501, "background"),
    (RESPONSES, {"tools": [{"type": "web_search"}]}, 400, "web_search"),
    (RESPONSES, {"top_logprobs": 2}, 400, "top_logprobs"),
    (MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "x"}]}, 400, "web_search"),
    (MESSAGES, {"stop_sequences": [""]}, 400, "Stop sequence"),
]


@pytest.mark.parametrize(("path", "fields", "status", "part"), REFUSED)
def test_what_is_refused(
    url: str, path: str, fields: dict[str, Any], status: int, part: str
) -> None:
    answer = post(url, path, **fields)
    assert answer.status_code == status
    body = answer.json()
    assert part in (body["error"] if path == MESSAGES else body)["message"]


def test_a_template_sees_the_same_reasoning_in_each_apis_second_turn(url: str) -> None:
    """The number of prompt tokens shows it: the template writes the reasoning of this turn."""
    call = {"name": "f", "arguments": "{}"}
    result = "21 C and sunny in Paris"
    chat = [
        {
            "role": "assistant",
            "reasoning_content": "hm",
            "tool_calls": [{"id": "c", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "c", "content": result},
    ]
    messages = [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "erased"},
                {"type": "tool_use", "id": "c", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": result}],
        },
    ]
    items = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
        },
        {"type": "function_call", "call_id": "c", **call},
        {"type": "function_call_output", "call_id": "c", "output": result},
    ]
    first = {"role": "user", "content": "x"}
    usages = [
        post(url, CHAT, messages=[first, *chat]).json()["usage"]["prompt_tokens"],
        post(url, MESSAGES, messages=[first, *messages]).json()["usage"]["input_tokens"],
        post(url, RESPONSES, input=[first, *items]).json()["usage"]["input_tokens"],
    ]
    assert len(set(usages)) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_backedges_checks_name_the_path_of_the_field(url: str, path: str, stream: bool) -> None:
    answer = post(url, path, schema={"type": "nonsense"}, stream=stream)
    assert answer.status_code == 400
    assert "`tools[0].function.parameters.type` must be one of " in answer.text
