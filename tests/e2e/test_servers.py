"""Our parsers in the engines' own servers, real ones: the worker's answers, by each endpoint."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from tests.e2e.client import HTTP, Client
from tests.e2e.peer_servers import SERVE, WAYS, find_wrong, start_server
from tests.support import TRANSCRIPTS, Transcript, as_whole
from tools.stack import MODEL_NAME, Stack

BY_TEMPLATE = ("--tool-call-parser", "backedge", "--reasoning-parser", "backedge")
BY_NAME = ("--tool-call-parser", "backedge_hermes", "--reasoning-parser", "backedge_qwen3")
SERVERS = [
    pytest.param(("vllm", *BY_TEMPLATE, "--stream-interval", "5"), id="vllm by the template"),
    pytest.param(("vllm", *BY_NAME), id="vllm by name", marks=pytest.mark.more),
    pytest.param(("sglang", *BY_TEMPLATE), id="sglang by the template"),
    pytest.param(
        ("sglang", *BY_NAME, "--stream-interval", "5"),
        id="sglang by name",
        marks=pytest.mark.more,
    ),
]


@dataclass
class Server:
    """A server with our parsers.

    engine: "vllm" or "sglang". doubles_characters: by a mistake of SGLang's (docs/upstream.md).
    """

    url: str
    engine: str
    doubles_characters: bool

    @property
    def is_vllms(self) -> bool:
        return self.engine == "vllm"


# These servers end reasoning at a stop string, too.
ENDED_IN_REASONING: dict[str, dict[str, Any]] = {
    "stop_in_reasoning": {
        "reasoning": "\nJuly is hot. January is cold, ",
        "content": None,
        "tool_calls": [],
        "finish_reason": "stop",
    }
}
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    engine, *flags = request.param
    # Not forked from a process with Dynamo's worker: our plugin would take it for that worker.
    with Stack(tmp_path_factory.mktemp("server")) as stack:
        started = start_server(stack, engine, *flags)
        yield Server(started.url, engine, engine == "sglang" and "--stream-interval" in flags)
        started.kill()  # SGLang looks for a SIGTERM every five seconds


def expected(server: Server, transcript: Transcript, *, stream: bool) -> dict[str, Any]:
    """Return the worker's answer, with vLLM's own end of a named call."""
    found: dict[str, Any] = transcript["expect"]
    if server.is_vllms and isinstance(transcript.get("tool_choice"), dict):
        found = {**found, "finish_reason": "stop"}
    found = ENDED_IN_REASONING.get(transcript["id"], found)
    if server.doubles_characters and stream and transcript["id"] == "multilingual_text":
        found = {**found, "content": found["content"].replace("世", "世世")}
    return found if stream else as_whole(found)


@STREAMED
@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=lambda each: each["id"])
def test_answers_are_the_workers(server: Server, transcript: Transcript, *, stream: bool) -> None:
    response = Client(server.url, MODEL_NAME).ask(transcript, stream=stream, lenient=True)
    wanted = expected(server, transcript, stream=stream)
    found = {name: value or None for name, value in response.message.items()}
    assert found == {name: value or None for name, value in wanted.items()}


# What a server decides itself, whatever its parsers are: cases, and ways of asking.
WHOLE = WAYS[:1]
DECIDED = {
    "vllm": {
        "8-the-call-ends-with-the-output": WHOLE,
        "15-cut-behind-a-call": WHOLE,
        "26-a-stop-string-in-reasoning": WAYS,
        "named_choice": WAYS,
        "stop_in_reasoning": WAYS,
    },
    "sglang": {
        "14-no-call-without-tool_choice": WAYS,
        "26-a-stop-string-in-reasoning": WAYS,
        "28-min_tokens": WAYS,
        "text after a result of a call with the arguments '', hermes": WAYS,
        "reasoning and a call, none, hermes": WAYS,
        "stop_in_reasoning": WAYS,
        "multilingual_text": (5,),
    },
}


def test_pitfalls_differ_only_where_the_server_decides(server: Server) -> None:
    decided = DECIDED[server.engine].items()
    wanted = {(name, way) for name, ways in decided for way in ways}
    assert find_wrong(server.url, server.engine, "hermes") == wanted


@STREAMED
def test_reasoning_is_counted(server: Server, *, stream: bool) -> None:
    response = Client(server.url, MODEL_NAME).ask(
        TRANSCRIPTS["reasoning_text"], stream=stream, lenient=True
    )
    # SGLang counts it in its scheduler, with the markers.
    usage = response.usage
    assert (usage.completion_tokens_details or usage).reasoning_tokens in (25, 27)


# The model knows no more of `zap` than its name: without an end it would write on.
ROME = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}


ZAP = {"type": "function", "function": {"name": "zap", "parameters": ROME}}
NAMED_ZAP = {"type": "function", "function": {"name": "zap"}}


@STREAMED
@pytest.mark.parametrize("name", ["reasoning_call", "tool_call"])
@pytest.mark.parametrize("choice", ["required", NAMED_ZAP], ids=["required", "named"])
def test_a_grammar_constrains_forced_calls(
    server: Server, name: str, choice: str | dict[str, Any], *, stream: bool
) -> None:
    """The model was trained to call another function."""
    response = Client(server.url, MODEL_NAME).ask(
        TRANSCRIPTS[name],
        stream=stream,
        lenient=True,
        tools=[ZAP],
        tool_choice=choice,
        parallel_tool_calls=False,
        max_tokens=200,
    )
    assert [call["name"] for call in response.answer.tool_calls] == ["zap"]
    assert bool(response.answer.reasoning) is (name == "reasoning_call")


@STREAMED
@pytest.mark.parametrize("choice", ["required", NAMED_ZAP], ids=["required", "named"])
def test_a_forced_call_without_room_is_none(
    server: Server, choice: str | dict[str, Any], *, stream: bool
) -> None:
    response = Client(server.url, MODEL_NAME).ask(
        TRANSCRIPTS["tool_call"],
        stream=stream,
        lenient=True,
        tools=[ZAP],
        tool_choice=choice,
        max_tokens=1,
    )
    assert (response.answer.tool_calls, response.answer.finish_reason) == ([], "length")


@pytest.mark.parametrize(
    ("tools", "choice"),
    [(None, NAMED_ZAP), ([ZAP], {"type": "function", "function": {"name": "zip"}}), ([ZAP], {})],
    ids=["no tools", "another tool", "no name"],
)
def test_a_choice_of_no_tool_is_refused(
    server: Server, tools: list[Any] | None, choice: dict[str, Any]
) -> None:
    with pytest.raises(openai.BadRequestError):
        Client(server.url, MODEL_NAME).ask(
            TRANSCRIPTS["tool_call"], stream=False, tools=tools, tool_choice=choice
        )


ENDPOINTS = ["reasoning_text", "text_call", "parallel_calls"]


@STREAMED
@pytest.mark.parametrize("name", ENDPOINTS)
def test_responses_have_the_same_parts(server: Server, name: str, *, stream: bool) -> None:
    transcript = TRANSCRIPTS[name]
    request: dict[str, Any] = {
        "model": MODEL_NAME,
        "input": transcript["messages"],
        "temperature": 0,
        "tools": [{"type": "function", **tool["function"]} for tool in transcript.get("tools", [])],
        "extra_body": {"chat_template_kwargs": transcript.get("chat_template_kwargs", {})},
    }
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", http_client=HTTP)
    answer: Any = client.responses.create(**request, stream=stream)
    if stream:
        *_, last = answer
        answer = last.response
    wanted = transcript["expect"]
    output = [item.model_dump() for item in answer.output]
    texts = [(item["type"], part["text"]) for item in output for part in item.get("content") or ()]
    kinds = {"reasoning": wanted["reasoning"], "message": wanted["content"]}
    assert dict(texts) == {kind: text for kind, text in kinds.items() if text}
    calls = [item for item in output if item["type"] == "function_call"]
    assert [{name: call[name] for name in ("name", "arguments")} for call in calls] == (
        wanted["tool_calls"]
    )


# In SGLang's requests of this form nothing can switch off the model's reasoning.
@pytest.mark.parametrize("name", ["reasoning_text", "reasoning_call"])
def test_messages_have_the_same_parts(server: Server, name: str) -> None:
    transcript = TRANSCRIPTS[name]
    tools = [
        {"name": function["name"], "input_schema": function["parameters"]}
        for function in (tool["function"] for tool in transcript.get("tools", []))
    ]
    request = {
        "model": MODEL_NAME,
        "messages": transcript["messages"],
        "max_tokens": 500,
        "temperature": 0,
        "tools": tools,
    }
    parts = HTTP.post(f"{server.url}/v1/messages", json=request).json()["content"]
    wanted = transcript["expect"]
    found = {part["type"]: part.get("text") or part.get("thinking") for part in parts}
    assert found.get("thinking") == wanted["reasoning"]
    assert found.get("text") == wanted["content"]
    called = [part["name"] for part in parts if part["type"] == "tool_use"]
    assert called == [call["name"] for call in wanted["tool_calls"]]


REFUSED = {
    "our worker's flag": (
        ("--vllm-processing",),
        "--vllm-processing: this flag of Backedge belongs to `python -m dynamo.vllm`.",
    ),
    "another of them": (
        ("--postprocess_record", "recordings"),
        "--postprocess-record: this flag of Backedge belongs to `python -m dynamo.vllm`.",
    ),
    "a name of nothing": (
        ("--enable-auto-tool-choice", "--tool-call-parser", "backedge_nothing"),
        "invalid tool call parser: backedge_nothing",
    ),
}


@pytest.mark.parametrize(("flags", "reason"), REFUSED.values(), ids=REFUSED)
def test_the_server_refuses(flags: tuple[str, ...], reason: str) -> None:
    ended = subprocess.run(
        [sys.executable, *SERVE, *flags], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode != 0
    assert reason in ended.stderr
