"""A worker dies, or a client leaves, while a malformed call is being generated again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.e2e.client import Client, Response, eventually
from tests.e2e.slipping.scripts import FIRST_SEED, OUTPUTS, SLIPS
from tests.e2e.test_regenerate import FLAGS, PLAIN, start_worker
from tools.stack import HUGGINGFACE_FRONTEND, ROOT, Process, Stack, metric, worker_is_ready

TURNS = 3
DISCARDED = "backedge_discarded_tokens_total"
RUNNING = "vllm:num_requests_running"
# The others have one reading, which may leave at once.
ALWAYS = [output for output, fault in SLIPS.items() if fault not in ("schema", "invalid_json")]
# So long that an attempt takes a while, and in characters that take few tokens in a prompt. It is
# all that a call may have: an integer has no longest, and random weights may never end it.
SHORTEST, LONGEST = 100, 120
CITY = {"type": "string", "pattern": f"^[a-z]{{{SHORTEST},{LONGEST}}}$"}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": CITY},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
QUESTION: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Weather?"}],
    "tools": [TOOL],
    "max_tokens": 800,
}


class Fleet(NamedTuple):
    """A frontend and two workers. counting: those that count discarded tokens."""

    name: str
    frontend: Process
    workers: list[Process]
    counting: list[Process]

    def ask(self) -> Client:
        return Client(self.frontend.url, self.name)

    def discarded(self) -> float:
        return sum(metric(each.url, DISCARDED) for each in self.counting)

    def running(self, alive: Sequence[Process]) -> float:
        return sum(metric(each.url, RUNNING) for each in alive)


@pytest.fixture(scope="module", params=["vllm", "vllm-plain"])
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    name: str = request.param
    with Stack(tmp_path_factory.mktemp("loss"), PYTHONPATH=str(ROOT)) as stack:
        workers = [start_worker(stack, name) for _ in range(2)]
        flags = ("--migration-limit", "3", *(FLAGS if name in PLAIN else ()))
        frontend = stack.frontend(*flags, command=HUGGINGFACE_FRONTEND, wait=False)
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        stack.wait_for_model(frontend, name)
        yield Fleet(name, frontend, workers, [frontend] if name in PLAIN else workers)


def run_agent(fleet: Fleet, number: int) -> list[Response]:
    """Return the answers of an agent's turns, each of which calls a tool."""
    client, messages, answers = fleet.ask(), [*QUESTION["messages"]], []
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


def test_a_client_that_leaves_ends_the_second_attempt(fleet: Fleet) -> None:
    before = fleet.discarded()
    stream = fleet.ask().openai.chat.completions.create(
        model=fleet.name, **QUESTION, seed=FIRST_SEED, stream=True
    )
    if fleet.name in PLAIN:  # its frontend counts a call once it is right
        assert eventually(lambda: fleet.running(fleet.workers) > 0)
    else:
        assert eventually(lambda: fleet.discarded() > before)
    stream.close()
    assert eventually(lambda: fleet.running(fleet.workers) == 0)


def test_each_turn_of_an_agent_has_right_calls_alone_if_a_worker_dies(fleet: Fleet) -> None:
    """It dies within some turns, and between others.

    Where it dies after a call, the other worker's model begins its script anew: another call.
    """
    victim, survivor = fleet.workers
    before = fleet.discarded()
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(run_agent, fleet, number) for number in range(8)]
        assert eventually(lambda: fleet.discarded() > before and fleet.running([victim]) > 0)
        victim.kill()
        answers = [answer for each in asked for answer in each.result()]
    for answer in answers:
        assert answer.message["finish_reason"] == "tool_calls", answer.message
        assert answer.message["tool_calls"]
        for call in answer.message["tool_calls"]:
            arguments = json.loads(call["arguments"])
            assert call["name"] == "get_weather"
            assert SHORTEST <= len(arguments["city"]) <= LONGEST
            assert arguments.keys() <= PARAMETERS["properties"].keys()
    assert eventually(lambda: fleet.running([survivor]) == 0)
