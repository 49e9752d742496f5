"""Engines of the user's: what they get, and what they are told when their model goes."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from tests.e2e.client import Client
from tests.e2e.conftest import ON_PATH
from tests.support import TRANSCRIPTS
from tools.stack import MODEL_NAME, Process, Stack, fetch, metric, worker_is_ready

GONE_WITHIN_S = 10.0  # on a busy machine; a second elsewhere
PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")


def wait_until_gone(frontend: Process) -> None:
    frontend.wait_for(lambda: f'"{MODEL_NAME}"' not in fetch(frontend.url + "/v1/models"))


def test_with_the_last_instance_the_engine_is_closed_without_a_further_request(
    tmp_path: Path,
) -> None:
    with Stack(tmp_path) as stack:
        engine = ("--engine-factory", "tests.e2e.closing_engine:Closing")
        frontend = stack.frontend(*engine, wait=False, **ON_PATH)
        workers = [stack.replay(*PARSERS, wait=False) for _ in range(2)]
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        stack.wait_for_model(frontend)
        question = TRANSCRIPTS["reasoning_call"]
        assert Client(frontend.url, MODEL_NAME).ask(question).message == question["expect"]
        for worker in workers:
            assert "engine closed" not in frontend.log.read_text()
            worker.terminate()
            worker.reap()
            stack.processes.remove(worker)
        wait_until_gone(frontend)
        # Nothing is asked of the frontend from here on.
        frontend.wait_for(lambda: "engine freed" in frontend.log.read_text(), GONE_WITHIN_S)
        said = re.findall(r"engine (made|closed|freed)\b", frontend.log.read_text())
        assert said == ["made", "closed", "freed"]


def test_the_example_routes_by_dynamos_kv_router(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        workers = [stack.replay(*PARSERS, wait=False) for _ in range(2)]
        frontend = stack.frontend(
            *("--engine-factory", "my_router:OwnRouter"), wait=False, **ON_PATH
        )
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        stack.wait_for_model(frontend)
        client = Client(frontend.url, MODEL_NAME)
        for name in ("reasoning_call", "parallel_calls", "multilingual_text"):
            for stream in (True, False):
                answer = client.ask(TRANSCRIPTS[name], stream=stream)
                assert answer.message == TRANSCRIPTS[name]["expect"]
        served = [metric(worker.url, "dynamo_component_requests_total") for worker in workers]
        assert sum(served) == 6
        log = frontend.log.read_text()
        assert log.count("blocks of the prompt") == 6
        for worker in workers:
            worker.terminate()
        wait_until_gone(frontend)
        frontend.wait_for(lambda: "model tiny is gone" in frontend.log.read_text(), GONE_WITHIN_S)
