"""The worker around transformers: the same answers as vLLM's, for a model that no engine knows."""

from __future__ import annotations

import importlib.metadata
import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import openai
import pytest

from tests.e2e.client import Client, ask_all, ask_transcripts, build_request, streamed
from tests.e2e.conftest import DYNAMO_PARSERS, VLLM_PARSERS
from tests.e2e.test_transcripts import ALL, RUST, STREAMED, check, check_tokens
from tests.support import TRANSCRIPTS, Transcript
from tools.stack import (
    HUGGINGFACE_FRONTEND,
    MODEL_NAME,
    STOCK_FRONTEND,
    STOP_TIMEOUT_S,
    Process,
    Stack,
    metric,
    worker_is_ready,
)

FLAGS = (*VLLM_PARSERS, *DYNAMO_PARSERS, "--device", "cpu")
# Each of its 1,900 tokens is a step of its own.
LONG = TRANSCRIPTS["count"]
STREAMS = 64
PAIR = "pair"
CHUNKS = "backedge_chunks_total"
IN_FLIGHT = "dynamo_component_inflight_requests"
HOT: dict[str, Any] = {"temperature": 1.5, "max_tokens": 12, "n": 2}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("transformers")) as found:
        yield found


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Process:
    return stack.transformers(*FLAGS, wait=False)


@pytest.fixture(scope="module")
def frontend(stack: Stack, worker: Process) -> Process:
    found = stack.frontend("--migration-limit", "3", command=HUGGINGFACE_FRONTEND)
    stack.wait_for_model(found)
    return found


@pytest.fixture(scope="module")
def client(frontend: Process) -> Client:
    return Client(frontend.url, MODEL_NAME)


@ALL
@STREAMED
def test_gives_exactly_the_transcript(
    frontend: Process, stream: bool, transcript: Transcript
) -> None:
    response = ask_transcripts(frontend, MODEL_NAME)[transcript["id"], stream].result()
    check(response, transcript, stream=stream)


def test_the_engine_gives_the_transcripts_token_for_token(frontend: Process) -> None:
    check_tokens(frontend, MODEL_NAME)


def test_the_worker_says_what_it_runs(worker: Process, frontend: Process) -> None:
    version = importlib.metadata.version("transformers")
    assert f"in this worker of transformers {version}: linear parsers" in worker.log.read_text()


def test_streams_at_once_are_exact(client: Client) -> None:
    question = TRANSCRIPTS["parallel_calls"]
    answers = ask_all(dict.fromkeys(range(STREAMS), partial(client.ask, question)))
    messages = [answer.result().message for answer in answers.values()]
    assert messages == [question["expect"]] * STREAMS


def test_dynamos_own_frontend_gives_what_it_gives_of_vllm(stack: Stack, worker: Process) -> None:
    stock = stack.frontend(command=STOCK_FRONTEND)
    stack.wait_for_model(stock)
    answers = ask_transcripts(stock, MODEL_NAME, lenient=True)
    # A stock frontend's grammar leaves no room for reasoning, and vLLM would wait for its end.
    assert RUST | {"json_schema_reasoning", "required_reasoning"} == {
        name
        for name, transcript in TRANSCRIPTS.items()
        if answers[name, True].result().message != transcript["expect"]
    }


def test_seeds_repeat_and_differ(client: Client) -> None:
    def ask(seed: int) -> list[str | None]:
        answers = client.ask(TRANSCRIPTS["plain_text"], seed=seed, **HOT).answers
        return [answers[index].content for index in sorted(answers)]

    first, again, other = ask(5), ask(5), ask(6)
    assert first == again != other
    assert len(set(first)) == HOT["n"]


@pytest.mark.parametrize("thinks", [False, True])
def test_a_forced_call_is_a_call_with_reasoning_and_without(client: Client, thinks: bool) -> None:
    answer = client.ask(
        TRANSCRIPTS["reasoning_call"],
        tool_choice="required",
        extra_body={"chat_template_kwargs": {"enable_thinking": thinks}},
    )
    assert {call["name"] for call in answer.message["tool_calls"]} == {"get_weather"}
    assert bool(answer.message["reasoning"]) == thinks


def test_the_likeliest_token_is_the_one_of_a_greedy_answer(client: Client) -> None:
    tokens = client.ask(LONG, logprobs=True, top_logprobs=2, max_tokens=4).answer.logprobs
    assert len(tokens) == 4
    for token in tokens:
        assert len(token.top_logprobs) == 2
        assert token.logprob == token.top_logprobs[0].logprob <= 0
        assert token.token == token.top_logprobs[0].token


def test_a_budget_of_thought_is_refused_by_name(client: Client) -> None:
    with pytest.raises(openai.BadRequestError, match=r"stop_conditions\.max_thinking_tokens"):
        client.ask(TRANSCRIPTS["plain_text"], extra_body={"thinking_token_budget": 5})


def test_a_stream_that_its_client_closes_ends(client: Client, worker: Process) -> None:
    stream = open_stream(client)
    next(stream)
    assert metric(worker.url, IN_FLIGHT) == 1
    stream.close()
    worker.wait_for(lambda: metric(worker.url, IN_FLIGHT) == 0, 10)
    assert client.ask(TRANSCRIPTS["plain_text"]).message == TRANSCRIPTS["plain_text"]["expect"]


def open_stream(client: Client, **fields: Any) -> Any:
    """Begin the long answer; return its chunks."""
    return client.openai.chat.completions.create(
        **build_request(LONG, client.model, fields),
        stream=True,
        stream_options={"include_usage": True},
    )


@pytest.fixture(scope="module")
def pair(stack: Stack) -> list[Process]:
    grace = {"DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS": "8"}
    found = [stack.transformers(*FLAGS, name=PAIR, wait=False, **grace) for _ in range(2)]
    for worker in found:
        worker.wait_for(partial(worker_is_ready, worker.url))
    return found


def test_a_prompt_goes_to_the_worker_that_has_its_beginning(
    stack: Stack, pair: list[Process]
) -> None:
    routes = ("--router-mode", "kv", "--no-router-kv-events")
    frontend = stack.frontend(*routes, command=HUGGINGFACE_FRONTEND)
    stack.wait_for_model(frontend, PAIR)
    client = Client(frontend.url, PAIR)
    served: dict[int, list[str]] = {}
    for _ in range(3):
        for number in range(6):
            # The beginnings differ, so that no prompt has another one's blocks.
            said = f"{number} is the number. " * 20
            before = {each.url: metric(each.url, CHUNKS) for each in pair}
            client.openai.chat.completions.create(
                model=PAIR, messages=[{"role": "user", "content": said}], max_tokens=1
            )
            [found] = (each.url for each in pair if metric(each.url, CHUNKS) > before[each.url])
            served.setdefault(number, []).append(found)
    assert all(len(set(urls)) == 1 for urls in served.values()), served
    assert {urls[0] for urls in served.values()} == {each.url for each in pair}


def test_a_stream_outlives_a_killed_worker_and_the_end_of_the_last_one(
    stack: Stack, frontend: Process, pair: list[Process]
) -> None:
    stack.wait_for_model(frontend, PAIR)
    client = Client(frontend.url, PAIR)
    # The other one goes on.
    stream = open_stream(client)
    killed = find_serving(pair)
    os.kill(killed.popen.pid, signal.SIGKILL)
    assert streamed(stream).message == LONG["expect"]
    pair.remove(killed)
    stack.processes.remove(killed)
    # There is no other one.
    stream = open_stream(client, max_tokens=400)
    [last] = pair
    find_serving(pair)
    last.terminate()
    answer = streamed(stream).answer
    assert answer.finish_reason == "length"
    assert answer.content
    assert LONG["expect"]["content"].startswith(answer.content)
    assert last.popen.wait(STOP_TIMEOUT_S) == 0
    assert "Traceback" not in last.log.read_text()
    stack.processes.remove(last)


def find_serving(workers: list[Process]) -> Process:
    """Return the worker that has the request, once it has begun its answer."""
    before = {each.url: metric(each.url, CHUNKS) for each in workers}
    found: list[Process] = []

    def serves() -> bool:
        found[:] = [each for each in workers if metric(each.url, CHUNKS) > before[each.url]]
        return bool(found)

    workers[0].wait_for(serves, 30)
    return found[0]
