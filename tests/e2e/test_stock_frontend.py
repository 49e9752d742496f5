"""Stock Rust code in front of our workers: `/v1/completions`, and stop strings that end work."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.client import Client, eventually
from tests.e2e.completion_cases import CASES, ask
from tests.e2e.conftest import BACKEDGE_MODEL, Fleet
from tests.e2e.forked import ForkingStack
from tests.support import TINY_MODEL, TRANSCRIPTS
from tools.stack import (
    CPU_ENVIRONMENT,
    HUGGINGFACE_FRONTEND,
    LOOPBACK,
    MODEL_NAME,
    ON_GPU,
    STOCK_FRONTEND,
    VLLM_ENGINE,
    Stack,
    fetch,
    free_port,
    metric,
)

AT_ONCE = 8
# What Dynamo's Rust code leaves out of its answers; docs/requests.md lists it.
DROPPED = ("stop_reason", "text_offset")

Answers = dict[str, dict[str, Any]]


def ask_all(url: str) -> Answers:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = threads.map(functools.partial(ask, url), CASES.values())
        return dict(zip(CASES, answers, strict=True))


@pytest.fixture(scope="module")
def by_vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    """The answers of vLLM's own server, with the engine settings of our worker."""
    with ForkingStack(tmp_path_factory.mktemp("vllm")) as stack:
        port = free_port()
        own = ("--model", str(TINY_MODEL), "--served-model-name", MODEL_NAME)
        listen = ("--host", LOOPBACK, "--port", str(port))
        command = ("-m", "vllm.entrypoints.openai.api_server", *own, *listen, *VLLM_ENGINE)
        server = stack.start(command, port, **({} if ON_GPU else CPU_ENVIRONMENT))
        server.wait_for(lambda: MODEL_NAME in fetch(server.url + "/v1/models"))
        yield ask_all(server.url)


@pytest.fixture(scope="module")
def by_us(fleet: Fleet) -> Answers:
    return ask_all(fleet.frontend.url)


@pytest.mark.parametrize("name", CASES)
def test_completions_are_those_of_vllms_server(by_vllm: Answers, by_us: Answers, name: str) -> None:
    expected = {
        field: value for field, value in by_vllm[name].items() if not field.endswith(DROPPED)
    }
    if CASES[name].get("echo"):
        prompt = CASES[name]["prompt"]
        expected["0.text"] = expected["0.text"].removeprefix(prompt)
    assert by_us[name] == expected


def test_the_replay_worker_answers_completions(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Stack(tmp_path_factory.mktemp("replay")) as stack:
        worker = stack.replay(wait=False)
        frontends = [
            stack.frontend(command=command, wait=False)
            for command in (HUGGINGFACE_FRONTEND, STOCK_FRONTEND)
        ]
        for frontend in frontends:
            stack.wait_for_model(frontend)
        for frontend in frontends:
            for name, text in (("text", "alpha, beta, "), ("text, streamed", "alpha, beta, ")):
                answer = ask(frontend.url, {**CASES[name], "stop": ["gamma"]})
                assert answer["0.text"] == text
                assert answer["0.finish_reason"] == "stop"
        assert metric(worker.url, "backedge_requests_total") == 4


LONG = TRANSCRIPTS["count"]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_stop_string_ends_the_engines_work(fleet: Fleet, stream: bool) -> None:
    before = fleet.generated()
    client = Client(fleet.stock.url, BACKEDGE_MODEL)
    response = client.ask(LONG, stream=stream, lenient=True, stop=["17"], max_tokens=600)
    generated = response.usage.completion_tokens
    assert "17" not in (response.answer.content or "")
    assert response.answer.finish_reason == "stop"
    assert eventually(lambda: fleet.has_stopped(before))
    assert fleet.generated() - before < generated + 40, "the engine did not go on"


def test_logprobs_of_merged_chunks_name_every_token(fleet: Fleet) -> None:
    worker_chunks = functools.partial(metric, fleet.worker.url, "backedge_chunks_total")
    before = worker_chunks()
    client = Client(fleet.stock.url, BACKEDGE_MODEL)
    transcript = TRANSCRIPTS["multilingual_text"]
    response = client.ask(transcript, lenient=True, logprobs=True, top_logprobs=2)
    entries = response.answer.logprobs
    assert len(entries) == response.usage.completion_tokens
    named = "".join(entry.token for entry in entries)
    assert named.startswith(transcript["expect"]["content"])
    assert worker_chunks() - before < len(entries)
