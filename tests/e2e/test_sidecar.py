"""An unmodified vLLM with its gRPC server, and a worker of its own beside it that post-processes.

Its answers are those of the patched worker.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
import openai
import pytest
from smg_grpc_proto import vllm_engine_pb2 as messages
from smg_grpc_proto import vllm_engine_pb2_grpc as services

from tests.e2e import test_requests
from tests.e2e.client import HTTP, Answer, Client, add_delta, ask_transcripts, build_request
from tests.e2e.completion_cases import CASES, LETTERS, ask
from tests.e2e.conftest import AUTO_PARSERS, BACKEDGE_MODEL, Fleet, describe_kv_events
from tests.e2e.test_bad_requests import read_refusal
from tests.e2e.test_kv_routing import BLOCK, OVERLAP, PREFIXES, TAIL
from tests.e2e.test_requests import ask_prompt_logprobs, requests_of_any_worker
from tests.e2e.test_transcripts import ALL, STREAMED, check, check_tokens
from tests.engines.frontends.bad_requests import USER
from tests.pairwise import WHOLE
from tests.support import TRANSCRIPTS, Transcript
from tools.stack import (
    GRPC_SERVER,
    HUGGINGFACE_FRONTEND,
    Process,
    Stack,
    fetch,
    free_port,
    metric,
    worker_is_ready,
)

SIDECAR = "sidecar"
DEADLINE_S = 30.0
LISTED = "is listed again"
# Grammars wait until the model has thought.
WAITS = ("--reasoning-parser", "qwen3")
COUNT: dict[str, Any] = {"prompt": LETTERS, "max_tokens": 1900, "stream": True}
ENDLESS = {"ignore_eos": True}

pytestmark = pytest.mark.skipif(not GRPC_SERVER.is_dir(), reason="vLLM's gRPC server is not here")


@dataclass
class Pair:
    """An engine and its worker."""

    stack: Stack
    port: int
    engine: Process
    worker: Process

    def restart_engine(self) -> None:
        """Start it again, and wait until its worker, which left discovery, is back."""
        before = self.worker.log.read_text().count(LISTED)
        self.engine = start_engine(self.stack, self.port)
        self.worker.wait_for(lambda: self.worker.log.read_text().count(LISTED) > before)

    def restart_worker(self) -> None:
        self.worker = start_worker(self.stack, self.port)
        self.worker.wait_for(partial(worker_is_ready, self.worker.url))


def start_engine(stack: Stack, port: int) -> Process:
    events = ("--enable-prefix-caching", "--kv-events-config", describe_kv_events())
    return stack.grpc_vllm(port, *WAITS, *events)


def start_worker(stack: Stack, port: int) -> Process:
    address = ("--engine", f"grpc://127.0.0.1:{port}", "--vllm-processing")
    return stack.sidecar(*address, "--namespace", SIDECAR, *AUTO_PARSERS, name=SIDECAR)


@pytest.fixture(scope="module")
def pairs(fleet: Fleet) -> Iterator[list[Pair]]:
    """Two of them serve one model. The workers start first, and wait."""
    ports, stack = [free_port(), free_port()], fleet.stack
    workers = [start_worker(stack, port) for port in ports]
    engines = [start_engine(stack, port) for port in ports]
    found = [Pair(stack, *pair) for pair in zip(ports, engines, workers, strict=True)]
    for worker in workers:
        worker.wait_for(partial(worker_is_ready, worker.url))
    stack.wait_for_model(fleet.frontend, SIDECAR)
    yield found
    for pair in found:
        pair.worker.terminate()
        pair.engine.terminate()


@pytest.fixture(scope="module")
def routing(
    fleet: Fleet, pairs: list[Pair], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Process]:
    """A frontend that knows caches, and moves requests."""
    folder = fleet.stack.environment["DYN_FILE_KV"]
    with Stack(tmp_path_factory.mktemp("routing"), DYN_FILE_KV=folder) as stack:
        frontend = stack.frontend(
            *("--router-mode", "kv", "--migration-limit", "3", "--namespace", SIDECAR),
            command=HUGGINGFACE_FRONTEND,
            DYN_LOG="info,dynamo_llm::kv_router=debug",
        )
        stack.wait_for_model(frontend, SIDECAR)
        yield frontend


@ALL
@STREAMED
def test_gives_exactly_the_transcript(
    fleet: Fleet, pairs: list[Pair], stream: bool, transcript: Transcript
) -> None:
    response = ask_transcripts(fleet.frontend, SIDECAR)[transcript["id"], stream].result()
    check(response, transcript, stream=stream)


def test_the_engine_gives_the_transcripts_token_for_token(fleet: Fleet, pairs: list[Pair]) -> None:
    check_tokens(fleet.frontend, SIDECAR)


# Dynamo ends a response of its interface with the first `finish_reason`, so several choices are not
# compared; vLLM and Dynamo write alternatives that are parts of characters in different ways.
COMPARED = {
    name: body for name, body in CASES.items() if "n" not in body and "of scripts" not in name
}


@pytest.mark.parametrize(
    "name", [name for name, body in COMPARED.items() if WHOLE or "stream" not in body]
)
def test_completions_are_the_patched_worker_s(fleet: Fleet, pairs: list[Pair], name: str) -> None:
    answers = [
        ask(fleet.frontend.url, {**CASES[name], "model": model})
        for model in (BACKEDGE_MODEL, SIDECAR)
    ]
    assert answers[0]["status"] == 200
    assert answers[1] == answers[0]


FEW = (
    *("test_every_choice_is_whole", "test_stop_token_ids", "test_structured_output_is_json"),
    "test_probabilities_of_the_prompt",
)


class TestRequests:
    """What a chat request can ask for; the cases of the patched workers' own module."""

    @pytest.fixture
    def client(self, fleet: Fleet, pairs: list[Pair]) -> Client:
        return Client(fleet.frontend.url, SIDECAR)


# Which of the two engines has a prompt in its cache is the router's business.
REQUESTS = [name for name in requests_of_any_worker() if name != "test_cached_tokens"]
for name in REQUESTS if WHOLE else FEW:
    setattr(TestRequests, name, staticmethod(getattr(test_requests, name)))


def test_probabilities_of_the_prompt_are_the_patched_worker_s(
    fleet: Fleet, pairs: list[Pair]
) -> None:
    patched, beside = (
        ask_prompt_logprobs(Client(fleet.frontend.url, model), stream=False).prompt_logprobs or []
        for model in (BACKEDGE_MODEL, SIDECAR)
    )
    assert len(patched) == len(beside) > 1
    for theirs, ours in zip(patched[1:], beside[1:], strict=True):
        # vLLM's server counts the token itself among its alternatives.
        assert len(ours) == 2
        for token_id, entry in ours.items():
            assert entry["logprob"] == pytest.approx(theirs[token_id]["logprob"], abs=1e-3)


NAMED = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize("choice", ["required", NAMED])
@pytest.mark.parametrize("thinks", [False, True])
def test_a_forced_call_is_a_call_with_reasoning_and_without(
    fleet: Fleet, routing: Process, choice: Any, thinks: bool
) -> None:
    for frontend in (fleet.frontend, routing):
        answer = Client(frontend.url, SIDECAR).ask(
            TRANSCRIPTS["reasoning_call"],
            tool_choice=choice,
            extra_body={"chat_template_kwargs": {"enable_thinking": thinks}},
        )
        # With "required", the model may write several.
        assert {call["name"] for call in answer.message["tool_calls"]} == {"get_weather"}
        assert not answer.message["content"]


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
def test_options_reach_the_engine(fleet: Fleet, pairs: list[Pair], name: str) -> None:
    answers = [
        Client(fleet.frontend.url, model).ask(TRANSCRIPTS["count"], max_tokens=24, **fields).message
        for model, fields in (
            (BACKEDGE_MODEL, OPTIONS[name]),
            (SIDECAR, OPTIONS[name]),
            (SIDECAR, {}),
        )
    ]
    assert answers[0] == answers[1] != answers[2]


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
# The text that names the field, and a request that the protocol cannot say.
REFUSED: dict[str, dict[str, Any]] = {
    "`seed` ": {"seed": 1 << 40},
    "`stop_conditions.max_thinking_tokens` ": {"thinking_token_budget": 5},
    "`sampling_options.guided_decoding.whitespace_pattern` ": {
        "guided_json": POINT,
        "guided_whitespace_pattern": " ",
    },
    "`length_penalty`": {"length_penalty": 0.5},  # Dynamo's HTTP layer knows it no more
    "`prompt_embeds` ": {"prompt": LETTERS, "prompt_embeds": "A" * 160},
    "": {"messages": [{"role": "user", "content": [IMAGE]}]},
}


def check_refusals(url: str, model: str, refused: dict[str, dict[str, Any]]) -> None:
    """Check that each request is a 400 that names the field, streamed and whole."""
    for named, fields in refused.items():
        path = "completions" if "prompt" in fields else "chat/completions"
        body = {"model": model, **({} if "prompt" in fields else {"messages": [USER]}), **fields}
        for stream in (True, False):
            status, message = read_refusal(
                HTTP.post(f"{url}/v1/{path}", json={**body, "stream": stream})
            )
            assert (status, named in message) == (400, True), (fields, stream, message)


def test_what_the_protocol_cannot_say_is_refused(fleet: Fleet, pairs: list[Pair]) -> None:
    check_refusals(fleet.frontend.url, SIDECAR, REFUSED)


def test_the_router_knows_the_engines_caches(routing: Process) -> None:
    check_overlap(routing, SIDECAR, BLOCK)


def check_overlap(routing: Process, model: str, block: int) -> None:
    """Check that the router knows what the only worker's cache, or each worker's, has of a prompt.

    block: of the cache, in tokens.
    """
    client = Client(routing.url, model)
    found = []
    for question in ("first", "second"):
        messages_ = [
            {"role": "system", "content": PREFIXES["words"]},
            {"role": "user", "content": question},
        ]
        usage = client.ask({"messages": messages_}, max_tokens=4).usage
        found.append(int(OVERLAP.findall(routing.log.read_text())[-1][0]))
    blocks = (usage.prompt_tokens - TAIL) // block
    assert found[0] < blocks <= found[1], found
    assert usage.prompt_tokens_details.cached_tokens >= blocks * block


def wait_until(happened: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def is_busy(pair: Pair) -> bool:
    return metric(pair.worker.url, "dynamo_component_inflight_requests") > 0


def count_cancelled(pair: Pair) -> float:
    lines = fetch(pair.worker.url + "/metrics").splitlines()
    found = [line for line in lines if line.startswith("backedge_requests_total")]
    return sum(float(line.split()[-1]) for line in found if 'outcome="cancelled"' in line)


def test_a_client_that_leaves_ends_the_request_in_the_engine(
    fleet: Fleet, pairs: list[Pair]
) -> None:
    before = sum(map(count_cancelled, pairs))

    def leave() -> bool:
        request = {"model": SIDECAR, **COUNT, **ENDLESS}
        url = fleet.frontend.url + "/v1/completions"
        with HTTP.stream("POST", url, json=request, timeout=60) as response:
            next(response.iter_lines())
        wait_until(lambda: not any(map(is_busy, pairs)))
        wait_until(lambda: not any(count_running(pair.engine) for pair in pairs))
        return sum(map(count_cancelled, pairs)) > before

    # On a busy machine, the example model may have finished before its client has left.
    wait_until(leave)


def count_running(engine: Process) -> int:
    with grpc.insecure_channel(engine.url.removeprefix("http://")) as channel:
        loads = services.VllmEngineStub(channel).GetLoads(messages.GetLoadsRequest())
        return int(loads.loads[0].num_running_reqs)


def kill_both(pair: Pair) -> None:
    pair.worker.kill()
    pair.engine.kill()


FAULTS: dict[str, Callable[[Pair], None]] = {
    "the engine is stopped": lambda pair: os.killpg(pair.engine.popen.pid, signal.SIGSTOP),
    "the worker is killed": lambda pair: pair.worker.kill(),
    "the engine is killed": lambda pair: pair.engine.kill(),
    "both are killed": kill_both,
}
REPAIRS: dict[str, Callable[[Pair], None]] = {
    "the engine is stopped": lambda pair: os.killpg(pair.engine.popen.pid, signal.SIGCONT),
    "the worker is killed": Pair.restart_worker,
    "the engine is killed": Pair.restart_engine,
}


# A stopped engine is found by probes, which takes half a minute.
LONG = "the engine is stopped"


@pytest.mark.parametrize("fault", [name for name in FAULTS if WHOLE or name != LONG])
def test_the_stream_goes_on_with_another_engine(
    routing: Process, pairs: list[Pair], fault: str
) -> None:
    """The last tests of the module: its engines end.

    Both engines serve each answer, so one that was started again does as well.
    """
    for pair in pairs:
        wait_until(partial(worker_is_ready, pair.worker.url))
    # Dynamo moves no request with a grammar, which calls have.
    transcript = TRANSCRIPTS["count"]
    client = Client(routing.url, SIDECAR).openai
    request = build_request(transcript, SIDECAR, {})
    answer, broken = Answer(), list[Pair]()
    for chunk in client.chat.completions.create(**request, stream=True, timeout=60):
        if not broken:
            broken = list(filter(is_busy, pairs))
            for pair in broken:
                FAULTS[fault](pair)
        for choice in chunk.choices:
            add_delta(answer, choice.delta)
            answer.finish_reason = choice.finish_reason or answer.finish_reason
    (pair,) = broken
    REPAIRS.get(fault, lambda _: None)(pair)
    assert "recreating stream" in routing.log.read_text()
    assert answer.message == transcript["expect"]
    (other,) = (found for found in pairs if found is not pair)
    wait_until(lambda: not count_running(other.engine))


def test_engines_that_are_gone_fail_their_requests(routing: Process, pairs: list[Pair]) -> None:
    (pair,) = (found for found in pairs if found.engine.popen.poll() is None)
    client = Client(routing.url, SIDECAR).openai
    with client.completions.create(
        model=SIDECAR, **COUNT, extra_body=ENDLESS, timeout=60
    ) as stream:
        next(iter(stream))
        FAULTS["both are killed"](pair)
        with pytest.raises(openai.APIError) as failed:
            for _ in stream:
                pass
    assert not isinstance(failed.value, openai.APITimeoutError)
    wait_until(lambda: f'"{SIDECAR}"' not in HTTP.get(routing.url + "/v1/models").text)
