"""A real vLLM is killed within an answer that a grammar constrains; another one goes on there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import openai
import pytest

from tests.e2e.client import HTTP, Answer, add_delta
from tests.e2e.conftest import VLLM_PARSERS
from tools.stack import HUGGINGFACE_FRONTEND, MODEL_NAME, Process, Stack, metric, worker_is_ready

GOES_ON = "another one goes on"
IN_FLIGHT = "dynamo_component_inflight_requests"
WORD = {"type": "string", "minLength": 60, "maxLength": 80}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "first": WORD,
        "list": {"type": "array", "items": WORD, "minItems": 2, "maxItems": 3},
        "count": {"type": "integer"},
        "last": WORD,
    },
    "required": ["first", "list", "count", "last"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "note", "schema": SCHEMA}}
NOT_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
# Chunks after which the worker is killed.
KILLED_AT = 40


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, list[Process]]]:
    flags = ("--vllm-processing", *VLLM_PARSERS, "--postprocess-latency", "lowest")
    with Stack(tmp_path_factory.mktemp("guided")) as stack:
        workers = [stack.worker(*flags, wait=False) for _ in range(2)]
        frontend = stack.frontend(
            "--migration-limit", "3", command=HUGGINGFACE_FRONTEND, wait=False
        )
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        stack.wait_for_model(frontend)
        yield frontend, workers


def test_a_stream_goes_on_within_its_json(fleet: tuple[Process, list[Process]]) -> None:
    frontend, workers = fleet
    client = openai.OpenAI(base_url=f"{frontend.url}/v1", api_key="-", http_client=HTTP)
    answer, victims = Answer(), []
    stream = client.chat.completions.create(
        model=MODEL_NAME,
        messages=[{"role": "user", "content": "Take a note."}],
        max_tokens=1500,
        seed=7,
        stream=True,
        extra_body={**NOT_THINKING, "response_format": FORMAT},
    )
    for number, chunk in enumerate(stream):
        if number == KILLED_AT:
            victims = [worker for worker in workers if metric(worker.url, IN_FLIGHT)]
            for worker in victims:
                worker.kill()
        for choice in chunk.choices:
            add_delta(answer, choice.delta)
            answer.finish_reason = choice.finish_reason or answer.finish_reason
    assert len(victims) == 1
    assert GOES_ON in frontend.log.read_text()
    found = json.loads(answer.content or "")
    assert found.keys() == SCHEMA["properties"].keys()
    assert all(60 <= len(word) <= 80 for word in (found["first"], *found["list"], found["last"]))
    assert answer.finish_reason == "stop"
