"""A worker is killed in mid-stream, also within a call; another one resumes there.

Both workers replay the transcripts slowly enough that the first is still busy when it is killed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tests.e2e.client import HTTP, Answer, Client, add_delta, build_request
from tests.e2e.completion_cases import WORDS
from tests.e2e.conftest import DYNAMO_PARSERS
from tests.e2e.test_replay import PARSERS, output_tokens
from tests.support import TRANSCRIPTS, encode
from tools.stack import (
    HUGGINGFACE_FRONTEND,
    MODEL_NAME,
    STOCK_FRONTEND,
    Process,
    Stack,
    metric,
    worker_is_ready,
)

IN_FLIGHT = "dynamo_component_inflight_requests"
TOKENS_PER_SECOND = "25"
LONGEST_S = 3


# By latency, the chunk at which the worker is killed, about 0.3 s after the start. The shortest
# transcript goes on for more than a second then, which a loaded machine needs.
KILLED_AT = {"lowest": 8, "balanced": 1}
# On a machine that stands still for a second, the answer is over before a worker can be found.
ATTEMPTS = 5


COMMANDS = {"ours": (*HUGGINGFACE_FRONTEND, *PARSERS), "stock": STOCK_FRONTEND}


@pytest.fixture
def pace() -> str:
    return TOKENS_PER_SECOND


@pytest.fixture
def fleet(
    tmp_path_factory: pytest.TempPathFactory, latency: str, command: str, pace: str
) -> Iterator[tuple[Process, list[Process]]]:
    with Stack(tmp_path_factory.mktemp("migration")) as stack:
        flags = ("--tokens-per-second", pace, "--postprocess-latency", latency)
        workers = [stack.replay(*PARSERS, *DYNAMO_PARSERS, *flags, wait=False) for _ in range(2)]
        frontend = stack.frontend("--migration-limit", "3", command=COMMANDS[command], wait=False)
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        stack.wait_for_model(frontend)
        yield frontend, workers


# In text, in characters of several tokens, in reasoning, in arguments.
NAMES = ("count", "multilingual_text", "reasoning_call", "nested_arguments", "long_argument")


def choose_pace(name: str) -> str:
    """Return the tokens per second with which also a long answer ends in some seconds."""
    return str(max(int(TOKENS_PER_SECOND), len(encode(TRANSCRIPTS[name]["output"])) // LONGEST_S))


CASES = [
    (command, latency, name, choose_pace(name))
    for command, names in (("ours", NAMES), ("stock", NAMES[:2]))
    for latency in KILLED_AT
    for name in names
]


@pytest.mark.parametrize(("command", "latency", "name", "pace"), CASES)
def test_the_stream_goes_on(fleet: tuple[Process, list[Process]], latency: str, name: str) -> None:
    frontend, workers = fleet
    transcript = TRANSCRIPTS[name]
    client = Client(frontend.url, MODEL_NAME)
    client.ask(TRANSCRIPTS["plain_text"])
    request = build_request(transcript, MODEL_NAME, {"stream_options": {"include_usage": True}})
    for _ in range(ATTEMPTS):
        answer, usage, victims = Answer(), None, []
        stream = client.openai.chat.completions.create(**request, stream=True)
        for number, chunk in enumerate(stream):
            if number == KILLED_AT[latency]:
                victims = [worker for worker in workers if metric(worker.url, IN_FLIGHT)]
                for worker in victims:
                    worker.kill()
            for choice in chunk.choices:
                add_delta(answer, choice.delta)
                answer.finish_reason = choice.finish_reason or answer.finish_reason
            usage = chunk.usage or usage
        if victims:
            break
    assert len(victims) == 1
    assert "recreating stream" in frontend.log.read_text(), (
        "the worker had finished before it was killed"
    )
    assert answer.message == transcript["expect"]
    assert usage is not None
    assert usage.completion_tokens == output_tokens(transcript)


JSON: dict[str, Any] = {"response_format": {"type": "json_object"}}
GUIDED = [(True, "reasoning_call"), (False, "reasoning_call"), (False, "count")]


# Dynamo moves no request with a grammar. Ours goes on in reasoning, and begins anew while the
# client has nothing.
@pytest.mark.parametrize("latency", ["lowest"])
@pytest.mark.parametrize("command", ["ours"])
@pytest.mark.parametrize(
    ("stream", "name", "pace"),
    [(stream, name, choose_pace(name)) for stream, name in GUIDED],
)
def test_an_answer_with_a_grammar_goes_on(
    fleet: tuple[Process, list[Process]], stream: bool, name: str
) -> None:
    frontend, workers = fleet
    transcript = TRANSCRIPTS[name]
    client = Client(frontend.url, MODEL_NAME)
    client.ask(TRANSCRIPTS["plain_text"])
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(client.ask, transcript, stream=stream, **JSON)
        victims: list[Process] = []
        while not victims and not asked.done():
            time.sleep(0.02)
            victims = [worker for worker in workers if metric(worker.url, IN_FLIGHT)]
        time.sleep(0.2)
        for worker in victims:
            worker.kill()
        response = asked.result()
    assert "another one goes on" in frontend.log.read_text()
    assert response.message == transcript["expect"]
    assert response.usage.completion_tokens == output_tokens(transcript)


@pytest.mark.parametrize("latency", ["lowest"])
@pytest.mark.parametrize("command", ["ours"])
def test_an_answer_with_a_grammar_goes_on_after_its_worker_died_before(
    fleet: tuple[Process, list[Process]],
) -> None:
    """Between the turns of an agent: discovery still lists the worker."""
    frontend, workers = fleet
    transcript = TRANSCRIPTS["plain_text"]
    client = Client(frontend.url, MODEL_NAME)
    client.ask(transcript, **JSON)
    workers[0].kill()
    for stream in (True, False, True, False):
        assert client.ask(transcript, stream=stream, **JSON).message == transcript["expect"]


CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
REQUESTS: dict[str, dict[str, Any]] = {
    CHAT: build_request(TRANSCRIPTS["plain_text"], MODEL_NAME, {}),
    COMPLETIONS: {"model": MODEL_NAME, "prompt": WORDS, "temperature": 0},
}


# The finish and the end of a response leave the worker as two messages, a fraction of a millisecond
# apart; on a machine under load that can be more. Dynamo continues a request whose worker dies in
# between, which docs/requests.md says. A worker that keeps a response open until the engine's next
# step would do so for 250 ms at this pace.
END_S = 0.05


@pytest.mark.parametrize("latency", ["lowest"])
@pytest.mark.parametrize("pace", ["4"])  # the engine's next step is far away when the stop is sent
@pytest.mark.parametrize(
    ("command", "path"),
    [("ours", CHAT), ("ours", COMPLETIONS), ("stock", CHAT), ("stock", COMPLETIONS)],
)
def test_nothing_follows_the_stop_of_a_worker_that_dies(
    fleet: tuple[Process, list[Process]], path: str
) -> None:
    frontend, workers = fleet
    body = {**REQUESTS[path], "stop": ["can"], "stream": True}
    body.update(body.pop("extra_body", {}))
    text, finishes = "", []
    victims: list[Process] = []
    for choice in read_choices(frontend.url + path, body):
        text += (choice.get("delta") or choice).get("content" if path == CHAT else "text") or ""
        victims = victims or [worker for worker in workers if metric(worker.url, IN_FLIGHT)]
        if choice.get("finish_reason"):
            finishes.append(choice["finish_reason"])
            time.sleep(END_S)
            for worker in victims:
                worker.kill()
    assert len(victims) == 1
    assert (text, finishes) == ("Hello! How ", ["stop"])


def read_choices(url: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the choices of a stream's events as they arrive."""
    with HTTP.stream("POST", url, json=body) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                yield from json.loads(line.removeprefix("data: "))["choices"]


@pytest.mark.parametrize("latency", ["balanced"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_whole_answer_has_the_logprobs_of_all_its_tokens(
    fleet: tuple[Process, list[Process]],
) -> None:
    """Dynamo's own frontend keeps those of its chunks by itself; ours do not disturb it."""
    frontend, workers = fleet
    transcript = TRANSCRIPTS["multilingual_text"]
    client = Client(frontend.url, MODEL_NAME)
    client.ask(TRANSCRIPTS["plain_text"])
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(client.ask, transcript, stream=False, logprobs=True, top_logprobs=1)
        victims: list[Process] = []
        while not victims and not asked.done():
            time.sleep(0.02)
            victims = [worker for worker in workers if metric(worker.url, IN_FLIGHT)]
        time.sleep((output_tokens(transcript) or 0) / float(TOKENS_PER_SECOND) / 2)
        for worker in victims:
            worker.kill()
        response = asked.result()
    assert "recreating stream" in frontend.log.read_text()
    assert response.message == transcript["expect"]
    assert len(response.answer.logprobs) == response.usage.completion_tokens
    assert response.usage.completion_tokens == output_tokens(transcript)
