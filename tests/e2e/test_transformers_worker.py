"""The worker around transformers: the same answers as vLLM's, for a model that no engine knows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import openai
import pytest

from tests.e2e.client import Client
from tests.support import TRANSCRIPTS
from tools.stack import (
    HUGGINGFACE_FRONTEND,
    MODEL_NAME,
    STOP_TIMEOUT_S,
    TINY_MODEL,
    Process,
    Stack,
    metric,
    worker_is_ready,
)

FLAGS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", "--device", "cpu")
# Of its 1,900 tokens, each is a step of its own.
LONG = "count"
SHORT = [name for name in TRANSCRIPTS if name != LONG]
HOT: dict[str, Any] = {"temperature": 1.5, "max_tokens": 12, "n": 2}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("transformers")) as found:
        yield found


def start_worker(stack: Stack) -> Process:
    model = ("--model", str(TINY_MODEL), "--served-model-name", MODEL_NAME)
    command = ("-m", "backedge.worker.transformers", *model, *FLAGS)
    return stack.run_worker(command, wait=True)


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Process:
    return start_worker(stack)


@pytest.fixture(scope="module")
def client(stack: Stack, worker: Process) -> Client:
    frontend = stack.frontend(command=HUGGINGFACE_FRONTEND)
    stack.wait_for_model(frontend)
    return Client(frontend.url, MODEL_NAME)


def test_transcripts_are_exact_streamed_and_whole_64_at_once(client: Client) -> None:
    asked = [(name, stream) for name in SHORT for stream in (True, False)]
    asked = (asked * 64)[:64]
    with ThreadPoolExecutor(len(asked)) as threads:
        answers = list(
            threads.map(lambda each: client.ask(TRANSCRIPTS[each[0]], stream=each[1]), asked)
        )
    wrong = [
        (each, answer.message)
        for each, answer in zip(asked, answers, strict=True)
        if answer.message != TRANSCRIPTS[each[0]]["expect"]
    ]
    assert not wrong


def test_seeds_repeat_and_differ(client: Client) -> None:
    def ask(seed: int) -> list[str]:
        question = TRANSCRIPTS["plain_text"]["messages"]
        response = client.openai.chat.completions.create(
            model=MODEL_NAME, messages=question, seed=seed, **HOT
        )
        return [choice.message.model_dump_json() for choice in response.choices]

    first, again, other = ask(5), ask(5), ask(6)
    assert first == again != other
    assert len(set(first)) == len(first)


def test_a_forced_call_is_a_call(client: Client) -> None:
    answer = client.ask(TRANSCRIPTS["reasoning_call"], tool_choice="required")
    assert {call["name"] for call in answer.message["tool_calls"]} == {"get_weather"}


def test_the_likeliest_token_is_the_one_of_a_greedy_answer(client: Client) -> None:
    response = client.openai.chat.completions.create(
        model=MODEL_NAME,
        messages=TRANSCRIPTS["plain_text"]["messages"],
        temperature=0,
        logprobs=True,
        top_logprobs=2,
        max_tokens=4,
        extra_body={"chat_template_kwargs": {"enable_thinking": False}},
    )
    assert response.choices[0].logprobs is not None
    tokens = response.choices[0].logprobs.content or []
    assert len(tokens) == 4
    for token in tokens:
        assert token.logprob == token.top_logprobs[0].logprob <= 0
        assert token.token == token.top_logprobs[0].token


def test_a_budget_of_thought_is_refused_by_name(client: Client) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.ask(TRANSCRIPTS["plain_text"], extra_body={"thinking_token_budget": 5})
    assert "stop_conditions.max_thinking_tokens" in str(caught.value)


def test_a_stream_that_its_client_closes_ends(client: Client, worker: Process) -> None:
    stream = client.openai.chat.completions.create(
        model=MODEL_NAME, messages=TRANSCRIPTS[LONG]["messages"], stream=True
    )
    next(iter(stream))
    stream.close()
    in_flight = partial(metric, worker.url, "dynamo_component_inflight_requests")
    worker.wait_for(lambda: in_flight() == 0)
    answer = client.ask(TRANSCRIPTS["plain_text"])
    assert answer.message == TRANSCRIPTS["plain_text"]["expect"]


def test_at_sigterm_the_running_answer_is_sent_to_its_end(
    stack: Stack, client: Client, worker: Process
) -> None:
    question = TRANSCRIPTS["long_reasoning"]
    stream = client.openai.chat.completions.create(
        model=MODEL_NAME, messages=question["messages"], stream=True, temperature=0
    )
    chunks = iter(stream)
    next(chunks)
    worker.terminate()
    assert [chunk for chunk in chunks if chunk.choices][-1].choices[0].finish_reason == "stop"
    assert worker.popen.wait(STOP_TIMEOUT_S) == 0
    stack.processes.remove(worker)
    after = start_worker(stack)
    after.wait_for(partial(worker_is_ready, after.url))
