"""Every transcript with each kind of parser in the worker; the fleet's own worker has the default, `auto`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.client import Client
from tests.e2e.conftest import VLLM_PARSERS, Fleet
from tests.e2e.test_transcripts import ALL, STREAMED, as_dynamo_folds, generated, reasoning_tokens
from tests.support import Transcript


@pytest.fixture(scope="module", params=["linear", "native"])
def client_of_kind(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[Client]:
    name = request.param
    worker = fleet.stack.worker(
        "--vllm-processing", *VLLM_PARSERS, "--postprocess-parsers", name, name=name
    )
    fleet.stack.wait_for_model(fleet.frontend, name)
    yield Client(fleet.frontend.url, name)
    assert f"{name} parsers qwen3+hermes" in worker.log.read_text()
    worker.terminate()
    worker.reap()


@ALL
@STREAMED
def test_gives_exactly_the_transcript(
    client_of_kind: Client, stream: bool, transcript: Transcript
) -> None:
    response = client_of_kind.ask(transcript, stream=stream)
    assert response.message == (
        transcript["expect"] if stream else as_dynamo_folds(transcript["expect"])
    )
    assert response.usage.completion_tokens == generated(transcript)
    assert response.usage.completion_tokens_details.reasoning_tokens == reasoning_tokens(transcript)
