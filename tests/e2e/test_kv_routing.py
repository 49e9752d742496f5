"""Requests with a common prefix go to the worker that has it, by the workers' real KV events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.client import Client, Response
from tests.e2e.conftest import VLLM_PARSERS
from tools.stack import Process, Stack, free_port, metric, worker_is_ready

PROMPT_TOKENS = "vllm:prompt_tokens_total"
BLOCK = 32
OVERLAP = re.compile(r"with (\d+)/(\d+) blocks overlap")
PREFIXES = {"words": "one two three four five " * 60, "numbers": "6 7 8 9 10 11 12 13 " * 40}


def kv_events() -> str:
    # A wildcard, or vLLM's publisher connects instead of binding, and so does Dynamo.
    endpoint = f"tcp://*:{free_port()}"
    return json.dumps({"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": endpoint})


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, list[Process]]]:
    """Return a frontend with the KV router, and two workers."""
    with Stack(tmp_path_factory.mktemp("kv")) as stack:
        workers = [
            stack.worker(
                "--vllm-processing",
                *VLLM_PARSERS,
                "--enable-prefix-caching",
                "--kv-events-config",
                kv_events(),
                wait=False,
            )
            for _ in range(2)
        ]
        frontend = stack.frontend(
            "--router-mode", "kv", wait=False, DYN_LOG="info,dynamo_llm::kv_router=debug"
        )
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        stack.wait_for_model(frontend)
        yield frontend, workers


def ask(frontend: Process, prefix: str, question: str) -> Response:
    messages = [
        {"role": "system", "content": PREFIXES[prefix]},
        {"role": "user", "content": question},
    ]
    return Client(frontend.url, "tiny").ask({"messages": messages}, max_tokens=4)


def prompt_tokens(workers: list[Process]) -> list[float]:
    return [metric(worker.url, PROMPT_TOKENS) for worker in workers]


def test_a_shared_prefix_goes_to_the_worker_that_has_it(
    fleet: tuple[Process, list[Process]],
) -> None:
    frontend, workers = fleet
    homes: dict[str, int] = {}
    for prefix in PREFIXES:
        before = prompt_tokens(workers)
        response = ask(frontend, prefix, "first")
        assert response.usage.prompt_tokens_details.cached_tokens == 0
        homes[prefix] = next(
            i for i, (a, b) in enumerate(zip(before, prompt_tokens(workers), strict=True)) if b > a
        )
    for round_number in range(3):
        for prefix, home in homes.items():
            before = prompt_tokens(workers)
            response = ask(frontend, prefix, f"again {round_number}")
            after = prompt_tokens(workers)
            served = next(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if b > a)
            prefix_blocks = response.usage.prompt_tokens // BLOCK - 1
            assert served == home
            assert response.usage.prompt_tokens_details.cached_tokens >= prefix_blocks * BLOCK
            overlap, total = map(int, OVERLAP.findall(frontend.log.read_text())[-1])
            assert overlap >= prefix_blocks, f"the router saw {overlap} of {total} blocks"
