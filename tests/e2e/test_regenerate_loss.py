"""A worker dies, or a client leaves, while a malformed call is being generated again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tests.e2e.client import Client, Response, eventually
from tests.e2e.slipping.scripts import FIRST_SEED, OUTPUTS, SLIPS
from tests.e2e.test_regenerate import start_worker
from tools.stack import HUGGINGFACE_FRONTEND, ROOT, Process, Stack, metric, worker_is_ready

NAME = "vllm"
DISCARDED = "backedge_discarded_tokens_total"
RUNNING = "vllm:num_requests_running"
# The others have one reading, which may leave at once.
ALWAYS = [output for output, fault in SLIPS.items() if fault not in ("schema", "invalid_json")]
# So long that an attempt takes a while.
CITY = {"type": "string", "minLength": 100, "maxLength": 120}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": CITY, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
QUESTION: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Weather?"}],
    "tools": [TOOL],
    "max_tokens": 800,
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, list[Process]]]:
    with Stack(tmp_path_factory.mktemp("loss"), PYTHONPATH=str(ROOT)) as stack:
        workers = [start_worker(stack, NAME) for _ in range(2)]
        frontend = stack.frontend(
            "--migration-limit", "3", command=HUGGINGFACE_FRONTEND, wait=False
        )
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        stack.wait_for_model(frontend, NAME)
        yield frontend, workers


def ask(frontend: Process, number: int) -> Response:
    client = Client(frontend.url, NAME)
    seed = FIRST_SEED + OUTPUTS.index(ALWAYS[number % len(ALWAYS)])
    return client.ask(QUESTION, seed=seed, stream=number % 2 == 0)


def test_a_client_that_leaves_ends_the_second_attempt(
    fleet: tuple[Process, list[Process]],
) -> None:
    frontend, workers = fleet
    before = sum(metric(worker.url, DISCARDED) for worker in workers)
    client = Client(frontend.url, NAME)
    stream = client.openai.chat.completions.create(
        model=NAME, **QUESTION, seed=FIRST_SEED, stream=True
    )
    assert eventually(lambda: sum(metric(each.url, DISCARDED) for each in workers) > before)
    stream.close()
    assert eventually(lambda: not any(metric(each.url, RUNNING) for each in workers))


def test_each_call_arrives_once_and_right_if_a_worker_dies(
    fleet: tuple[Process, list[Process]],
) -> None:
    frontend, workers = fleet
    victim = workers[0]
    before = metric(victim.url, DISCARDED)
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask, frontend, number) for number in range(16)]
        assert eventually(lambda: metric(victim.url, DISCARDED) > before)
        victim.kill()
        answers = [each.result() for each in asked]
    for answer in answers:
        [call] = answer.message["tool_calls"]
        arguments = json.loads(call["arguments"])
        assert call["name"] == "get_weather"
        assert 100 <= len(arguments["city"]) <= 120
        assert arguments.keys() <= PARAMETERS["properties"].keys()
        assert answer.message["finish_reason"] == "tool_calls"
    assert eventually(lambda: metric(workers[1].url, RUNNING) == 0)
