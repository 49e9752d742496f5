"""A worker that is killed in mid-stream: another one goes on where it was.

With text, because Dynamo migrates no request under guided decoding, and vLLM's
parsers constrain tool calls. That a call goes on in its middle is a case of
`tests/postprocess/test_transcripts.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.client import Answer, Client, add_delta, request_of
from tests.e2e.conftest import BACKEDGE_MODEL, VLLM_PARSERS
from tests.support import TRANSCRIPTS
from tools.stack import Process, Stack, metric, worker_is_ready

RUNNING = "vllm:num_requests_running"


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, list[Process]]]:
    with Stack(tmp_path_factory.mktemp("migration")) as stack:
        workers = [stack.worker("--vllm-processing", *VLLM_PARSERS, wait=False) for _ in range(2)]
        frontend = stack.frontend("--migration-limit", "3", wait=False)
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        stack.wait_for_model(frontend, BACKEDGE_MODEL)
        yield frontend, workers


def test_the_stream_goes_on(fleet: tuple[Process, list[Process]]) -> None:
    frontend, workers = fleet
    transcript = TRANSCRIPTS["count"]
    client = Client(frontend.url, BACKEDGE_MODEL)
    for _ in workers:
        client.ask(TRANSCRIPTS["plain_text"])  # the first request of a worker builds what it needs
    request = request_of(transcript, BACKEDGE_MODEL, {"stream_options": {"include_usage": True}})
    answer, killed, usage = Answer(), False, None
    for number, chunk in enumerate(client.openai.chat.completions.create(**request, stream=True)):
        if number == 30:
            busy = [worker for worker in workers if metric(worker.url, RUNNING) > 0]
            assert len(busy) == 1, "the engine is still at it"
            busy[0].kill()
            killed = True
        for choice in chunk.choices:
            add_delta(answer, choice.delta)
            answer.finish_reason = choice.finish_reason or answer.finish_reason
        usage = chunk.usage or usage
    assert killed
    assert answer.message == transcript["expect"]
    assert usage is not None
    again = client.ask(transcript)
    assert again.message == transcript["expect"]
    assert (usage.prompt_tokens, usage.completion_tokens) == (again.usage.prompt_tokens, again.usage.completion_tokens)
