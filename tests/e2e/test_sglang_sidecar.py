"""An unmodified SGLang with its gRPC server, and a worker of its own beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e import test_requests
from tests.e2e.client import Client, ask_transcripts
from tests.e2e.completion_cases import ask
from tests.e2e.conftest import VLLM_PARSERS, describe_kv_events
from tests.e2e.forked import ForkingStack
from tests.e2e.test_requests import requests_of_any_worker
from tests.e2e.test_sglang import as_sglang
from tests.e2e.test_sglang_kv_routing import PAGE
from tests.e2e.test_sidecar import COMPARED, FEW, REFUSED, WAITS, check_overlap, check_refusals
from tests.e2e.test_transcripts import ALL, STREAMED, check, check_tokens
from tests.pairwise import WHOLE
from tests.support import TRANSCRIPTS, Transcript
from tools.stack import GRPC_SERVER, HUGGINGFACE_FRONTEND, MODEL_NAME, Process, Stack, free_port

# For all transcripts at once: where SGLang runs out of room on a CPU, its answers change.
ROOM = ("--max-total-tokens", "16384")

pytestmark = pytest.mark.skipif(not GRPC_SERVER.is_dir(), reason="the gRPC server is not here")


@pytest.fixture(scope="module")
def frontend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    port = free_port()
    folder = tmp_path_factory.mktemp("beside")
    with Stack(folder) as stack, ForkingStack(folder / "forked", **stack.environment) as forked:
        events = ("--kv-events-config", describe_kv_events(), "--page-size", str(PAGE))
        forked.grpc_sglang(port, *WAITS, *ROOM, *events)
        address = f"grpc://127.0.0.1:{port}"
        stack.sidecar("--engine", address, "--sglang-processing", *VLLM_PARSERS)
        frontend = stack.frontend(
            *(*VLLM_PARSERS, "--router-mode", "kv"),
            command=HUGGINGFACE_FRONTEND,
            DYN_LOG="info,dynamo_llm::kv_router=debug",
        )
        stack.wait_for_model(frontend)
        yield frontend


@ALL
@STREAMED
def test_gives_exactly_the_transcript(
    frontend: Process, stream: bool, transcript: Transcript
) -> None:
    response = ask_transcripts(frontend, MODEL_NAME)[transcript["id"], stream].result()
    check(response, transcript, stream=stream, spell_tools=as_sglang)


def test_the_engine_gives_the_transcripts_token_for_token(frontend: Process) -> None:
    check_tokens(frontend, MODEL_NAME)


OPTIONS: dict[str, dict[str, Any]] = {
    "choice": {"extra_body": {"guided_choice": ["yes", "no"]}},
    "penalty": {"frequency_penalty": 2},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_reach_the_engine(frontend: Process, name: str) -> None:
    client, transcript = Client(frontend.url, MODEL_NAME), TRANSCRIPTS["count"]
    answers = [
        client.ask(transcript, max_tokens=24, **fields).message for fields in ({}, OPTIONS[name])
    ]
    assert answers[0] != answers[1]


class TestRequests:
    @pytest.fixture
    def client(self, frontend: Process) -> Client:
        return Client(frontend.url, MODEL_NAME)


for name in requests_of_any_worker() if WHOLE else FEW:
    setattr(TestRequests, name, staticmethod(getattr(test_requests, name)))


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The frontend of a patched worker, with an engine of its own."""
    with ForkingStack(tmp_path_factory.mktemp("patched")) as stack:
        stack.sglang("--sglang-processing", *VLLM_PARSERS, *ROOM)
        frontend = stack.frontend(*VLLM_PARSERS, command=HUGGINGFACE_FRONTEND)
        stack.wait_for_model(frontend)
        yield frontend


@pytest.mark.skipif(not WHOLE, reason="a second engine, for WHOLE_MATRICES")
@pytest.mark.parametrize("name", COMPARED)
def test_completions_are_the_patched_worker_s(
    frontend: Process, patched: Process, name: str
) -> None:
    answers = [ask(each.url, COMPARED[name]) for each in (patched, frontend)]
    assert answers[0]["status"] == 200
    assert answers[1] == answers[0]


def test_the_router_knows_the_engines_cache(frontend: Process) -> None:
    check_overlap(frontend, MODEL_NAME, PAGE)


def test_what_the_protocol_cannot_say_is_refused(frontend: Process) -> None:
    others = {named: fields for named, fields in REFUSED.items() if "seed" not in fields}
    any_seed = {"`sampling_options.seed` ": {"seed": 1}}
    check_refusals(frontend.url, MODEL_NAME, others | any_seed)
