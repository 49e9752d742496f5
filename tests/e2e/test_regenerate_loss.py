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
TURNS = 3
DISCARDED = "backedge_discarded_tokens_total"
RUNNING = "vllm:num_requests_running"
# The others have one reading, which may leave at once.
ALWAYS = [output for output, fault in SLIPS.items() if fault not in ("schema", "invalid_json")]
# So long that an attempt takes a while, and in characters that take few tokens in a prompt.
SHORTEST, LONGEST = 100, 120
CITY = {"type": "string", "pattern": f"^[a-z]{{{SHORTEST},{LONGEST}}}$"}
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


def run_agent(frontend: Process, number: int) -> list[Response]:
    """Return the answers of an agent's turns, each of which calls a tool."""
    client, messages, answers = Client(frontend.url, NAME), [*QUESTION["messages"]], []
    for turn in range(TURNS):
        seed = FIRST_SEED + OUTPUTS.index(ALWAYS[(number + turn) % len(ALWAYS)])
        request = {**QUESTION, "messages": messages}
        answer = client.ask(request, seed=seed, stream=number % 2 == 0)
        answers.append(answer)
        calls = [
            {
                "id": f"call-{turn}",
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in answer.message["tool_calls"]
        ]
        result = {"role": "tool", "tool_call_id": f"call-{turn}", "content": "21 C"}
        messages = [*messages, {"role": "assistant", "tool_calls": calls}, result]
    return answers


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


def test_each_turn_of_an_agent_has_one_right_call_if_a_worker_dies(
    fleet: tuple[Process, list[Process]],
) -> None:
    """It dies within some turns, and between others."""
    frontend, workers = fleet
    victim = workers[0]
    before = metric(victim.url, DISCARDED)
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(run_agent, frontend, number) for number in range(8)]
        assert eventually(lambda: metric(victim.url, DISCARDED) > before)
        victim.kill()
        answers = [answer for each in asked for answer in each.result()]
    for answer in answers:
        [call] = answer.message["tool_calls"]
        arguments = json.loads(call["arguments"])
        assert call["name"] == "get_weather"
        assert SHORTEST <= len(arguments["city"]) <= LONGEST
        assert arguments.keys() <= PARAMETERS["properties"].keys()
        assert answer.message["finish_reason"] == "tool_calls"
    assert eventually(lambda: metric(workers[1].url, RUNNING) == 0)
