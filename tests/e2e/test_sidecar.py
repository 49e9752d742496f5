"""An unmodified vLLM with its gRPC server, and a worker of its own beside it that post-processes.

Its answers are those of the patched worker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import openai
import pytest
from smg_grpc_proto import vllm_engine_pb2 as messages
from smg_grpc_proto import vllm_engine_pb2_grpc as services

from tests.e2e.client import HTTP, Client, ask_transcripts
from tests.e2e.completion_cases import CASES, LETTERS, ask
from tests.e2e.conftest import BACKEDGE_MODEL, VLLM_PARSERS, Fleet, describe_kv_events
from tests.e2e.test_kv_routing import BLOCK, OVERLAP, PREFIXES, TAIL
from tests.e2e.test_transcripts import ALL, STREAMED, as_dynamo_folds
from tests.support import TRANSCRIPTS, Transcript
from tools.stack import (
    GRPC_SERVER,
    HUGGINGFACE_FRONTEND,
    MODEL_NAME,
    Process,
    Stack,
    free_port,
    metric,
)

SIDECAR = "sidecar"
DEADLINE_S = 30.0
# Grammars wait until the model has thought.
WAITS = ("--reasoning-parser", "qwen3")
CACHES = ("--enable-prefix-caching", "--kv-events-config", describe_kv_events())
COUNT: dict[str, Any] = {"prompt": LETTERS, "max_tokens": 1900, "stream": True}
ENDLESS = {"ignore_eos": True}

pytestmark = pytest.mark.skipif(not GRPC_SERVER.is_dir(), reason="vLLM's gRPC server is not here")


class Beside(NamedTuple):
    engine: Process
    worker: Process


@pytest.fixture(scope="module")
def beside(fleet: Fleet) -> Iterator[Beside]:
    port = free_port()
    # The worker starts first, and waits.
    address = f"grpc://127.0.0.1:{port}"
    worker = fleet.stack.sidecar(
        *("--engine", address, "--vllm-processing", "--namespace", SIDECAR),
        *VLLM_PARSERS,
        name=SIDECAR,
    )
    engine = fleet.stack.grpc_vllm(port, *WAITS, *CACHES)
    fleet.stack.wait_for_model(fleet.frontend, SIDECAR)
    yield Beside(engine, worker)
    worker.terminate()
    engine.terminate()


@ALL
@STREAMED
def test_gives_exactly_the_transcript(
    fleet: Fleet, beside: Beside, stream: bool, transcript: Transcript
) -> None:
    message = ask_transcripts(fleet.frontend, SIDECAR)[transcript["id"], stream].result().message
    expected = transcript["expect"]
    assert message == (expected if stream else as_dynamo_folds(expected))


# Dynamo ends a response of its interface with the first `finish_reason`, so several choices are not
# compared; vLLM and Dynamo write alternatives that are parts of characters in different ways.
COMPARED = [
    name
    for name, body in CASES.items()
    if not {"stream", "n", "echo"} & set(body) and name != "logprobs of scripts"
]


@pytest.mark.parametrize("name", COMPARED)
def test_completions_are_the_patched_worker_s(fleet: Fleet, beside: Beside, name: str) -> None:
    answers = [
        ask(fleet.frontend.url, {**CASES[name], "model": model})
        for model in (BACKEDGE_MODEL, SIDECAR)
    ]
    assert answers[0]["status"] == 200
    assert answers[1] == answers[0]


POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
OPTIONS: dict[str, dict[str, Any]] = {
    "schema": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "point", "schema": POINT},
        }
    },
    "penalty": {"frequency_penalty": 2},
    "candidates": {
        "temperature": 2,
        "seed": 7,
        "frequency_penalty": 2,
        "extra_body": {"top_k": 5, "min_p": 0.01},
    },
    "choice": {"extra_body": {"guided_choice": ["yes", "no"]}},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_reach_the_engine(fleet: Fleet, beside: Beside, name: str) -> None:
    answers = [
        Client(fleet.frontend.url, model).ask(TRANSCRIPTS["count"], max_tokens=24, **fields).message
        for model, fields in (
            (BACKEDGE_MODEL, OPTIONS[name]),
            (SIDECAR, OPTIONS[name]),
            (SIDECAR, {}),
        )
    ]
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.parametrize(
    ("fields", "name"), [({"seed": 1 << 40}, "seed"), ({"echo": True}, "prompt_logprobs")]
)
def test_what_the_protocol_cannot_say_is_refused(
    fleet: Fleet, beside: Beside, fields: dict[str, Any], name: str
) -> None:
    body = {"model": SIDECAR, "prompt": LETTERS, "max_tokens": 5, **fields}
    response = HTTP.post(fleet.frontend.url + "/v1/completions", json=body, timeout=60)
    assert response.status_code == 400
    assert name in response.text
    assert "gRPC" in response.text


def test_the_router_knows_the_engine_s_cache(fleet: Fleet, beside: Beside, tmp_path: Path) -> None:
    with Stack(tmp_path, DYN_FILE_KV=fleet.stack.environment["DYN_FILE_KV"]) as stack:
        frontend = stack.frontend(
            *("--router-mode", "kv", "--namespace", SIDECAR),
            command=HUGGINGFACE_FRONTEND,
            DYN_LOG="info,dynamo_llm::kv_router=debug",
        )
        stack.wait_for_model(frontend, SIDECAR)
        client = Client(frontend.url, SIDECAR)
        found = []
        for question in ("first", "second"):
            messages_ = [
                {"role": "system", "content": PREFIXES["words"]},
                {"role": "user", "content": question},
            ]
            usage = client.ask({"messages": messages_}, max_tokens=4).usage
            found.append(int(OVERLAP.findall(frontend.log.read_text())[-1][0]))
    blocks = (usage.prompt_tokens - TAIL) // BLOCK
    assert found[0] < blocks <= found[1], found
    assert usage.prompt_tokens_details.cached_tokens >= blocks * BLOCK


def wait_until(happened: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_client_that_leaves_ends_the_request_in_the_engine(fleet: Fleet, beside: Beside) -> None:
    url = fleet.frontend.url + "/v1/completions"
    with HTTP.stream(
        "POST", url, json={"model": SIDECAR, **COUNT, **ENDLESS}, timeout=60
    ) as response:
        next(response.iter_lines())
        assert metric(beside.worker.url, "dynamo_component_inflight_requests") == 1
    wait_until(lambda: metric(beside.worker.url, "dynamo_component_inflight_requests") == 0)
    with grpc.insecure_channel(beside.engine.url.removeprefix("http://")) as channel:
        loads = services.VllmEngineStub(channel).GetLoads
        wait_until(lambda: loads(messages.GetLoadsRequest()).loads[0].num_running_reqs == 0)


def test_an_engine_that_is_killed_fails_its_requests_and_may_come_back(
    fleet: Fleet, beside: Beside
) -> None:
    """The last test of the module: its engine starts again."""
    client = Client(fleet.frontend.url, SIDECAR).openai
    with client.completions.create(
        model=SIDECAR, **COUNT, extra_body=ENDLESS, timeout=60
    ) as stream:
        next(iter(stream))
        beside.engine.kill()
        with pytest.raises(openai.APIError) as failed:
            for _ in stream:
                pass
    assert "unavailable" in str(failed.value)
    served = fleet.frontend.url + "/v1/models"
    wait_until(lambda: f'"{SIDECAR}"' not in HTTP.get(served).text)
    assert f'"{MODEL_NAME}"' in HTTP.get(served).text
    port = int(beside.engine.url.rpartition(":")[2])
    again = fleet.stack.grpc_vllm(port, *WAITS)
    fleet.stack.wait_for_model(fleet.frontend, SIDECAR)
    # Dynamo leaves an instance that has failed alone for a moment.
    wait_until(lambda: answers_again(fleet.frontend.url))
    again.terminate()


def answers_again(url: str) -> bool:
    transcript = TRANSCRIPTS["reasoning_call"]
    try:
        answer = Client(url, SIDECAR).ask(transcript)
    except openai.InternalServerError:
        return False
    assert answer.message == transcript["expect"]
    return True
