"""The metrics on Dynamo's own /metrics, where an operator reads them, with and without vLLM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import openai
import pytest
from backedge.worker.metrics import WorkerMetrics
from prometheus_client import CollectorRegistry

from tests.e2e.client import Client, build_request, eventually
from tests.e2e.conftest import Fleet
from tests.e2e.test_transcripts import STREAMED, generated
from tests.support import TRANSCRIPTS
from tools.stack import HUGGINGFACE_FRONTEND, Process, Stack, fetch, metric

PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
FAST, SLOW = "fast", "slow"
CALL = TRANSCRIPTS["reasoning_call"]
DEADLINE_S = 20.0
STAGES = ("detokenize", "parse", "write", "encode")
NAMES = (
    "requests_started_total",
    "requests_total",
    "engine_tokens_total",
    "engine_outputs_total",
    "chunks_total",
)


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Process, Client]]]:
    """A worker at full speed and a slow one, each with its client."""
    with Stack(tmp_path_factory.mktemp("metrics")) as stack:
        fast = stack.replay(*PARSERS, name=FAST, wait=False)
        slow = stack.replay(
            *PARSERS, "--tokens-per-second", "20", "--namespace", SLOW, name=SLOW, wait=False
        )
        frontend = stack.frontend(*PARSERS, command=HUGGINGFACE_FRONTEND, wait=False)
        for name in (FAST, SLOW):
            stack.wait_for_model(frontend, name)
        yield {
            name: (worker, Client(frontend.url, name))
            for name, worker in ((FAST, fast), (SLOW, slow))
        }


def samples(url: str) -> dict[str, float]:
    """Return Backedge's samples by name and labels, as the page has them."""
    lines = [line for line in fetch(url + "/metrics").splitlines() if line.startswith("backedge_")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def counts(url: str) -> list[float]:
    return [metric(url, f"backedge_{name}") for name in NAMES]


def list_names() -> set[str]:
    """Return the names of the collector's samples."""
    registry = CollectorRegistry()
    registry.register(WorkerMetrics())
    return {sample.name for family in registry.collect() for sample in family.samples}


def check(worker: Process, client: Client, *, stream: bool) -> None:
    """Ask for a tool call and assert what that adds to the metrics."""
    calls = 'backedge_tool_calls_total{outcome="complete",parser="qwen3+hermes"}'
    before, called = counts(worker.url), samples(worker.url)[calls]
    client.ask(CALL, stream=stream)
    assert eventually(lambda: metric(worker.url, "backedge_requests_in_flight") == 0)
    started, ended, tokens, outputs, chunks = map(float.__sub__, counts(worker.url), before)
    assert (started, ended, tokens) == (1, 1, generated(CALL))
    assert 1 <= chunks <= outputs <= tokens
    assert samples(worker.url)[calls] == called + 1
    assert metric(worker.url, "backedge_parser_errors_total") == 0


@STREAMED
def test_a_request_is_counted(replay: dict[str, tuple[Process, Client]], stream: bool) -> None:
    check(*replay[FAST], stream=stream)


def test_every_name_is_there(replay: dict[str, tuple[Process, Client]]) -> None:
    assert {name.split("{")[0] for name in samples(replay[FAST][0].url)} == list_names()


def test_the_second_request_is_measured(replay: dict[str, tuple[Process, Client]]) -> None:
    worker, client = replay[FAST]
    while metric(worker.url, "backedge_requests_total") < 2:
        client.ask(CALL)
    measured = {
        stage: samples(worker.url)[f'backedge_stage_tokens_total{{stage="{stage}"}}']
        for stage in STAGES
    }
    assert measured == dict.fromkeys(STAGES, generated(CALL))
    assert metric(worker.url, "backedge_stage_seconds_total") > 0


def test_a_client_that_goes_away_is_counted(replay: dict[str, tuple[Process, Client]]) -> None:
    worker, client = replay[SLOW]
    cancelled = 'backedge_requests_total{outcome="cancelled"}'
    before = samples(worker.url)[cancelled]
    stream = client.openai.chat.completions.create(
        **build_request(TRANSCRIPTS["count"], SLOW, {}), stream=True
    )
    next(iter(stream))
    assert metric(worker.url, "backedge_requests_in_flight") == 1
    # By the clock of the event loop that serves requests, whichever that is.
    assert metric(worker.url, "backedge_oldest_wait_seconds") < DEADLINE_S
    stream.close()
    assert eventually(lambda: samples(worker.url)[cancelled] == before + 1)
    assert metric(worker.url, "backedge_requests_in_flight") == 0


@STREAMED
def test_a_vllm_worker_has_the_same(fleet: Fleet, client: Client, stream: bool) -> None:
    check(fleet.worker, client, stream=stream)
    assert {name.split("{")[0] for name in samples(fleet.worker.url)} == list_names()


def test_a_frontend_says_what_its_cache_of_prompts_saves(
    replay: dict[str, tuple[Process, Client]],
) -> None:
    """The worker answers no such question, but the frontend has made its prompt before."""
    _, client = replay[FAST]
    url = str(client.openai.base_url).removesuffix("/v1/")
    tokens = 'backedge_prompt_cache_tokens_total{source="cache"}'
    before = samples(url)[tokens]
    for question in ("What?", "And what else?"):
        messages = [{"role": "system", "content": "Be brief. " * 250}]
        messages.append({"role": "user", "content": question})
        with pytest.raises(openai.BadRequestError, match="only replays"):
            client.openai.chat.completions.create(model=FAST, messages=cast("Any", messages))
    after = samples(url)
    assert after[tokens] > before + 100
    assert after["backedge_prompt_cache_bytes"] > 1_000
