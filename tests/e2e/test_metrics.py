"""The metrics on Dynamo's own /metrics, where an operator reads them, with and without vLLM."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import openai
import pytest
import yaml
from backedge.worker.metrics import WorkerMetrics
from prometheus_client import CollectorRegistry

from tests.e2e.client import Client, build_request, eventually
from tests.e2e.conftest import Fleet
from tests.e2e.load import Load
from tests.e2e.prometheus import Prometheus, read_queries
from tests.e2e.test_transcripts import STREAMED, generated
from tests.machine import needs
from tests.support import TRANSCRIPTS
from tools.stack import HUGGINGFACE_FRONTEND, ROOT, Process, Stack, fetch, metric

PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
FAST, SLOW = "fast", "slow"
CALL = TRANSCRIPTS["reasoning_call"]
DEADLINE_S = 20.0
RULES = ROOT / "deploy" / "kubernetes" / "monitoring" / "rules.yaml"
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


@needs("prometheus")
def test_prometheus_has_an_answer_for_every_panel_and_rule(
    replay: dict[str, tuple[Process, Client]], tmp_path: Path
) -> None:
    """The dashboard's own queries, and the alerts, with a fleet under load."""
    resource = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    (tmp_path / "rules.json").write_text(json.dumps(resource["spec"]), encoding="utf-8")
    frontend = str(replay[FAST][1].openai.base_url).removesuffix("/v1/")
    urls = [frontend, *(worker.url for worker, _ in replay.values())]
    targets = {url.removeprefix("http://"): {"pod": url[-5:]} for url in urls}
    queries = read_queries("10s")
    start = time.time()
    with Prometheus(tmp_path, targets, str(tmp_path / "rules.json")) as prometheus:

        def find_empty() -> list[str]:
            return [query for query in queries if not prometheus.has_values(query, start)]

        load = Load(frontend, FAST)
        load.run(lambda: not find_empty(), timeout_s=60)
        assert (load.errors, find_empty()) == ([], [])
        assert prometheus.list_up() == set(targets)
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        assert {rule["health"] for rule in rules} == {"ok"}
        assert len(rules) == len(resource["spec"]["groups"][0]["rules"])
    assert eventually(lambda: metric(replay[FAST][0].url, "backedge_requests_in_flight") == 0)
