"""An unmodified SGLang with its gRPC server, and a worker of its own beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.client import HTTP, Client, ask_transcripts
from tests.e2e.completion_cases import LETTERS
from tests.e2e.conftest import VLLM_PARSERS
from tests.e2e.test_sidecar import WAITS
from tests.e2e.test_transcripts import ALL, STREAMED, as_dynamo_folds, generated
from tests.support import TRANSCRIPTS, Transcript
from tools.stack import GRPC_SERVER, HUGGINGFACE_FRONTEND, MODEL_NAME, Process, Stack, free_port

# For all transcripts at once: where SGLang runs out of room on a CPU, its answers change.
ROOM = ("--max-total-tokens", "16384")

pytestmark = pytest.mark.skipif(not GRPC_SERVER.is_dir(), reason="the gRPC server is not here")


@pytest.fixture(scope="module")
def frontend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    port = free_port()
    with Stack(tmp_path_factory.mktemp("beside")) as stack:
        stack.grpc_sglang(port, *WAITS, *ROOM)
        address = f"grpc://127.0.0.1:{port}"
        stack.sidecar("--engine", address, "--sglang-processing", *VLLM_PARSERS)
        frontend = stack.frontend(*VLLM_PARSERS, command=HUGGINGFACE_FRONTEND)
        stack.wait_for_model(frontend)
        yield frontend


@ALL
@STREAMED
def test_gives_exactly_the_transcript(
    frontend: Process, stream: bool, transcript: Transcript
) -> None:
    message = ask_transcripts(frontend, MODEL_NAME)[transcript["id"], stream].result().message
    expected = transcript["expect"]
    assert message == (expected if stream else as_dynamo_folds(expected))


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


def test_two_choices(frontend: Process) -> None:
    transcript = TRANSCRIPTS["plain_text"]
    response = Client(frontend.url, MODEL_NAME).ask(transcript, n=2, temperature=0.001)
    assert [answer.message for answer in response.answers.values()] == [transcript["expect"]] * 2
    assert response.usage.completion_tokens == 2 * generated(transcript)


def test_what_the_protocol_cannot_say_is_refused(frontend: Process) -> None:
    body = {"model": MODEL_NAME, "prompt": LETTERS, "max_tokens": 5, "seed": 1}
    response = HTTP.post(frontend.url + "/v1/completions", json=body, timeout=60)
    assert response.status_code == 400
    assert "seed" in response.text
