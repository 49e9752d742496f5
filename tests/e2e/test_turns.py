"""An agent's next prompt begins with the last prompt and the last answer, in the engine's cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.e2e.client import HTTP
from tests.e2e.conftest import BACKEDGE_MODEL, PLAIN_MODEL, VLLM_PARSERS, Fleet
from tests.support import TRANSCRIPTS
from tools.stack import Process, metric

TRANSCRIPT = TRANSCRIPTS["reasoning_call"]
BLOCK = 32  # tokens of the CPU engine's cache
TENANT = "x-dynamo-meta-tenant"


@pytest.fixture(scope="module")
def frontend(fleet: Fleet) -> Iterator[Process]:
    """Return a frontend that keeps turns, by tenant."""
    flags = ("--keep-turns", "exact", "--keep-turns-scope", TENANT)
    started = fleet.stack.frontend(*VLLM_PARSERS, *flags, wait=False)
    for model in (BACKEDGE_MODEL, PLAIN_MODEL):
        fleet.stack.wait_for_model(started, model)
    yield started
    started.terminate()


def ask_for_call(frontend: Process, model: str, messages: list[Any], **fields: Any) -> Any:
    client = openai.OpenAI(base_url=f"{frontend.url}/v1", api_key="none", http_client=HTTP)
    return client.chat.completions.create(
        model=model,
        messages=messages,
        tools=TRANSCRIPT["tools"],
        temperature=0,
        max_tokens=64,
        **fields,
    )


def ask(frontend: Process, model: str, messages: list[Any], tenant: str) -> Any:
    return ask_for_call(frontend, model, messages, extra_headers={TENANT: tenant})


def send_back(message: Any) -> dict[str, Any]:
    """Return the message as most frameworks do: without reasoning, its arguments written anew."""
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": call.function.name,
                "arguments": json.dumps(json.loads(call.function.arguments), indent=2),
            },
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.content, "tool_calls": calls}


@pytest.mark.parametrize("model", [BACKEDGE_MODEL, PLAIN_MODEL])
def test_the_engine_finds_the_last_turn_in_its_cache(frontend: Process, model: str) -> None:
    question = [{"role": "system", "content": model}, *TRANSCRIPT["messages"]]
    first = ask(frontend, model, question, "a")
    message = first.choices[0].message
    assert message.reasoning_content
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "21 C"}
    messages = [*question, send_back(message), result]
    before = metric(frontend.url, "backedge_turns_total")
    other = ask(frontend, model, messages, "b")
    second = ask(frontend, model, messages, "a")
    # The last generated token is in no cache: the engine never computed what follows it.
    turn = first.usage.prompt_tokens + first.usage.completion_tokens - 1
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached >= turn // BLOCK * BLOCK
    assert other.usage.prompt_tokens < second.usage.prompt_tokens
    assert metric(frontend.url, "backedge_turns_total") > before
