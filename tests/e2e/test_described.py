"""A checkpoint that describes a format nobody knows, on the real engine, found by `auto`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.client import Client
from tests.e2e.conftest import AUTO_PARSERS, ON_PATH
from tests.e2e.forked import ForkingStack
from tests.parsers.made_up import SEED, THINKING_SEED, write_model
from tools.stack import HUGGINGFACE_FRONTEND

NAME = "described"
ZONES, DAYS = ["Rome", "Oslo"], {"type": "integer", "minimum": 0, "maximum": 9}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"zone": {"enum": ZONES}, "days": DAYS},
    "required": ["zone", "days"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": PARAMETERS, "strict": True}}
    for name in ("get_time", "set_time")
]
QUESTION = {"messages": [{"role": "user", "content": "Which time?"}], "tools": TOOLS}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp(NAME)
    with ForkingStack(folder / "stack") as stack:
        worker = stack.worker(
            *("--vllm-processing", *AUTO_PARSERS, "--postprocess-latency", "lowest"),
            *("--logits-processors", "tests.e2e.scripted:Scripted"),
            model=write_model(folder / "model"),
            name=NAME,
            wait=False,
            **ON_PATH,
        )
        frontend = stack.frontend(command=HUGGINGFACE_FRONTEND, wait=False)
        stack.wait_for_model(frontend, NAME)
        yield Client(frontend.url, NAME)
        assert "auto: template, because it is the model's" in worker.log.read_text()


def test_it_streams_reasoning_text_and_a_strict_call(client: Client) -> None:
    response = client.ask(QUESTION, seed=SEED, max_tokens=200)
    assert response.message == {
        "reasoning": "Which zone?",
        "content": "A moment.",
        "tool_calls": [{"name": "get_time", "arguments": '{"zone": "Rome", "days": 3}'}],
        "finish_reason": "tool_calls",
    }
    assert response.chunks > 10


NAMED = {"type": "function", "function": {"name": "set_time"}}


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_forced_call_follows_the_reasoning(client: Client, stream: bool, choice: Any) -> None:
    response = client.ask(
        QUESTION,
        stream=stream,
        tool_choice=choice,
        parallel_tool_calls=False,
        seed=THINKING_SEED,
        max_tokens=200,
    )
    assert response.message["reasoning"] == "Which zone?"
    [call] = response.message["tool_calls"]
    arguments = json.loads(call["arguments"])
    assert arguments["zone"] in ZONES
    assert arguments["days"] in range(10)
    assert call["name"] in (("get_time", "set_time") if choice == "required" else ("set_time",))
    assert not response.answer.content
