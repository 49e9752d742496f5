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

GENERATED = "vllm:generation_tokens_total"


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, list[Process]]]:
    with Stack(tmp_path_factory.mktemp("migration")) as stack:
        workers = [stack.worker("--vllm-processing", *VLLM_PARSERS, wait=False) for _ in range(2)]
        frontend = stack.frontend("--migration-limit", "3", wait=False)
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        stack.wait_for_model(frontend, BACKEDGE_MODEL)
        yield frontend, workers


def next_in_turn(client: Client, workers: list[Process]) -> Process:
    """Ask each worker once, which also warms it up, and return the one that is next: Dynamo goes round."""
    order = []
    for _ in workers:
        before = [metric(worker.url, GENERATED) for worker in workers]
        client.ask(TRANSCRIPTS["plain_text"])
        after = [metric(worker.url, GENERATED) for worker in workers]
        order += [worker for worker, a, b in zip(workers, before, after, strict=True) if b > a]
    assert len(set(map(id, order))) == len(workers)
    return order[0]


def test_the_stream_goes_on(fleet: tuple[Process, list[Process]]) -> None:
    frontend, workers = fleet
    transcript = TRANSCRIPTS["count"]
    client = Client(frontend.url, BACKEDGE_MODEL)
    victim = next_in_turn(client, workers)
    request = request_of(transcript, BACKEDGE_MODEL, {"stream_options": {"include_usage": True}})
    answer, usage = Answer(), None
    for number, chunk in enumerate(client.openai.chat.completions.create(**request, stream=True)):
        if number == 2:
            victim.kill()
        for choice in chunk.choices:
            add_delta(answer, choice.delta)
            answer.finish_reason = choice.finish_reason or answer.finish_reason
        usage = chunk.usage or usage
    assert "recreating stream" in frontend.log.read_text(), "the worker had finished before it was killed"
    assert answer.message == transcript["expect"]
    assert usage is not None
    again = client.ask(transcript)
    assert again.message == transcript["expect"]
    assert (usage.prompt_tokens, usage.completion_tokens) == (again.usage.prompt_tokens, again.usage.completion_tokens)
